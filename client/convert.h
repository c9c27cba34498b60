#ifndef EVENSTEP_CLIENT_CONVERT_H_
#define EVENSTEP_CLIENT_CONVERT_H_

// From the wire's messages to the SDK's structs and back. Pure functions, used
// by GrpcClient, and by the command line for what it finds out itself.

#include "evenstep/job.h"
#include "evenstep/v1/job.pb.h"
#include "evenstep/v1/plan.pb.h"

namespace evenstep::client {

JobState FromProto(v1::JobState state);
v1::JobState ToProto(JobState state);
Job FromProto(const v1::Job& proto);
StepSummary FromProto(const v1::StepSummary& proto);
JobEvent FromProto(const v1::JobEvent& proto);
LogLine FromProto(const v1::LogLine& proto);
DataSummary FromProto(const v1::DataSummary& proto);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_CONVERT_H_
