#ifndef EVENSTEP_JOBSPEC_PROFILE_H_
#define EVENSTEP_JOBSPEC_PROFILE_H_

// What `evenstep profile` measured: costs, the points that they were fitted to
// and checked against, and the key that says of what they are true. Written by
// the trainer, shown by the command line, read for the `costs` of a job file.
// Text to structs and back are pure; the functions that look into folders say
// so.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/yaml.h"
#include "data/clip.h"
#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::jobspec {

// One micro-batch that was timed, on all ranks of its group at once.
struct ProfilePoint {
  int layers = 1;            // of the model it ran in
  int recompute_layers = 0;  // of these; of video of the spatial ones
  int recompute_temporal_layers = 0;
  int degree = 1;
  std::vector<int64_t> lengths = {};         // tokens
  std::vector<data::ClipShape> shapes = {};  // of video, parallel to lengths
  bool held_out = false;                     // not fitted to: it checks the fit
  double compute_ns = 0;     // the slowest rank's lower quartile
  double collective_ns = 0;  // of every call the least of ranks and repeats
  double predicted_ns = 0;   // of compute and collectives by the fit
  // The most that a rank held, and what the memory model says of it. 0: not
  // counted.
  int64_t activation_bytes = 0;
  int64_t predicted_bytes = 0;

  double measured_ns() const { return compute_ns + collective_ns; }
};

struct Profile {
  ProfileKey key;
  planner::TimeModel costs;  // of the whole model
  // Mean of |predicted - measured| / measured.
  double fit_error = 0;
  double held_out_error = 0;
  std::vector<ProfilePoint> points;
};

// The clips of a point as "8x4x4" each, joined by `between`; of text its
// lengths.
std::string FormatSizes(const ProfilePoint& point, absl::string_view between);

// The part of a key that a job itself decides.
std::string ModelKey(const ModelSpec& model);
// Of parameters, and of optimizer states that are split, whose update takes
// another time: "float32", "float32, optimizer zero1".
std::string PrecisionKey(const JobSpec& spec);
// "model ..., device ..., software ..., precision ...".
std::string FormatProfileKey(const ProfileKey& key);
// FAILED_PRECONDITION with both keys unless they are the same.
absl::Status CheckProfileKey(const ProfileKey& profile, const ProfileKey& here);

// Whether a YAML file is a profile; otherwise it may be a cost file.
bool IsProfile(const YamlNode& root);
std::string FormatProfile(const Profile& profile);
// INVALID_ARGUMENT with "NAME:LINE: sentence".
absl::StatusOr<Profile> ParseProfile(absl::string_view yaml,
                                     absl::string_view name);

// Where profiles are kept if nobody says otherwise: $EVENSTEP_PROFILE_DIR, or
// evenstep/profiles in the user's cache folder.
std::string DefaultProfileFolder();
// The file of a key in `folder`. Another version of the software writes the
// same file: its predecessor's costs are of no more use.
std::string ProfilePath(absl::string_view folder, const ProfileKey& key);
// Reads the one profile in `folder` of this model and precision. NOT_FOUND:
// there is none; says which command makes it. FAILED_PRECONDITION: several,
// with their files and devices.
absl::StatusOr<Profile> FindProfile(const std::string& folder,
                                    absl::string_view model,
                                    absl::string_view precision);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_PROFILE_H_
