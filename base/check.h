#ifndef EVENSTEP_BASE_CHECK_H_
#define EVENSTEP_BASE_CHECK_H_

// Ends the process when an invariant of our own is broken: a bug, never bad
// input (that is an absl::Status). Always on. Thread-safe.
//
//   EVENSTEP_CHECK(rank < world, "rank outside the world");

#include <cstdio>
#include <cstdlib>

#define EVENSTEP_CHECK(condition, sentence)                                \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", __FILE__, \
                   __LINE__, sentence, #condition);                        \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

#endif  // EVENSTEP_BASE_CHECK_H_
