#include "evenstep/client.h"

#include <random>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"

namespace evenstep::client {
namespace {

constexpr size_t kIdSuffixLength = 8;
constexpr size_t kLongestId = 63;

// What of a job's name may stand in an id.
std::string IdPrefix(absl::string_view name) {
  std::string prefix;
  for (char c : name) {
    c = absl::ascii_tolower(c);
    const bool legal = absl::ascii_isalnum(c);
    if (legal) prefix += c;
    if (!legal && !prefix.empty() && prefix.back() != '-') prefix += '-';
  }
  while (!prefix.empty() && prefix.back() == '-') prefix.pop_back();
  if (prefix.empty() || !absl::ascii_isalpha(prefix[0]))
    prefix = "job" + prefix;
  return prefix.substr(0, kLongestId - kIdSuffixLength - 1);
}

}  // namespace

absl::StatusOr<Job> Client::Wait(const std::string& job_id,
                                 const StreamOptions& stream) {
  WatchCursor cursor;
  EVENSTEP_RETURN_IF_ERROR(Watch(job_id, &cursor, stream, [](const WatchItem&) {
    return Follow::kContinue;
  }));
  return Get(job_id);
}

std::string MakeJobId(absl::string_view name) {
  constexpr absl::string_view kAlphabet =
      "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<size_t> index(0, kAlphabet.size() - 1);
  std::string id = IdPrefix(name) + "-";
  for (size_t i = 0; i < kIdSuffixLength; ++i) id += kAlphabet[index(random)];
  return id;
}

}  // namespace evenstep::client
