#include "worker/trainer/job/agreement.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace evenstep::trainer {

absl::Status CheckSameOnAllRanks(Communicator& world, absl::string_view what,
                                 uint64_t key) {
  const auto own = static_cast<int64_t>(key);
  // A maximum is a minimum of complements.
  int64_t ends[] = {own, ~own};
  EVENSTEP_RETURN_IF_ERROR(world.AllReduceMin(absl::MakeSpan(ends)));
  if (ends[0] == ~ends[1]) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " are not the same on all ranks: rank ", world.rank(),
                   " has key ", absl::Hex(key)));
}

absl::Status BroadcastText(Communicator& world, std::string* text) {
  auto bytes = static_cast<int64_t>(text->size());
  EVENSTEP_RETURN_IF_ERROR(world.Broadcast(&bytes, sizeof(bytes), /*root=*/0));
  text->resize(static_cast<size_t>(bytes));
  if (bytes == 0) return absl::OkStatus();
  return world.Broadcast(text->data(), bytes, /*root=*/0);
}

}  // namespace evenstep::trainer
