#ifndef EVENSTEP_RPC_CALLBACK_THREADS_H_
#define EVENSTEP_RPC_CALLBACK_THREADS_H_

// gRPC runs reactions on threads that all channels and servers of a process
// share, and ends them with the last of these. In gRPC 1.51 that end now and
// then aborts the process ("assertion failed: prior > 0", in the unref of their
// queue). So they are kept for as long as the process lives.

namespace evenstep::rpc {

// Called before a channel or a server is made. Thread-safe.
void KeepCallbackThreads();

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_CALLBACK_THREADS_H_
