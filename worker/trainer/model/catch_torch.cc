#include "worker/trainer/model/catch_torch.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace evenstep::trainer {
namespace {

// What c10's CPU allocator says; it throws no type of its own.
constexpr char kNoMemory[] = "can't allocate memory";

}  // namespace

absl::Status StatusOfException(absl::string_view what) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const c10::Error& error) {
    const std::string text =
        absl::StrCat(what, ": ", error.what_without_backtrace());
    const bool memory =
        dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
        absl::StrContains(text, kNoMemory);
    return memory ? absl::ResourceExhaustedError(text)
                  : absl::InternalError(text);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(what, ": unknown exception"));
  }
}

}  // namespace evenstep::trainer
