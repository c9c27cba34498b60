#include "coordinator/server/rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::coordinator {
namespace {

v1::RendezvousResponse Found(const std::string& value) {
  v1::RendezvousResponse response;
  response.set_found(true);
  response.set_value(value);
  return response;
}

absl::Status GenerationOver(const v1::AttemptId& id) {
  return absl::AbortedError(absl::StrCat(
      "job '", id.job_id(), "', attempt ", id.attempt(), ": generation ",
      id.generation(), " is over or has not begun"));
}

}  // namespace

void Rendezvous::Open(const v1::AttemptId& scope) {
  scopes_.try_emplace(KeyOf(scope));
}

void Rendezvous::Close(const v1::AttemptId& scope, const std::string& why) {
  auto node = scopes_.extract(KeyOf(scope));
  if (node.empty()) return;
  AnswerAll(std::move(node.mapped().waiters), absl::AbortedError(why));
}

void Rendezvous::CloseAll(const absl::Status& status) {
  std::map<Key, Scope> scopes = std::exchange(scopes_, {});
  for (auto& [key, scope] : scopes) {
    AnswerAll(std::move(scope.waiters), status);
  }
}

void Rendezvous::AnswerAll(
    std::list<Waiter> waiters,
    const absl::StatusOr<v1::RendezvousResponse>& answer) {
  const std::list<Waiter> taken = std::move(waiters);
  for (const Waiter& waiter : taken) waiter.answer(answer);
}

void Rendezvous::Handle(const v1::RendezvousRequest& request,
                        absl::Duration now, Answer answer) {
  if (request.attempt().job_id().size() > wire::kMaxJobIdBytes) {
    return answer(absl::InvalidArgumentError(
        absl::StrCat("a job id of ", request.attempt().job_id().size(),
                     " bytes; the bound is ", wire::kMaxJobIdBytes)));
  }
  const auto scope = scopes_.find(KeyOf(request.attempt()));
  if (scope == scopes_.end()) return answer(GenerationOver(request.attempt()));
  if (request.has_get()) {
    return Get(scope->second, request.get(), now, std::move(answer));
  }
  if (!request.has_set()) {
    return answer(absl::InvalidArgumentError("neither set nor get"));
  }
  const absl::Status status = Set(scope->second, request.set());
  if (!status.ok()) return answer(status);
  answer(Found(""));
}

absl::Status Rendezvous::Set(Scope& scope, const v1::RendezvousSet& set) {
  const size_t bytes = set.key().size() + set.value().size();
  if (set.key().empty() || set.key().size() > limits_.key_bytes ||
      set.value().size() > limits_.value_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", set.key().size(), " bytes with a value of ",
                     set.value().size(), "; bounds are ", limits_.key_bytes,
                     " and ", limits_.value_bytes));
  }
  const auto kept = scope.values.find(set.key());
  if (kept != scope.values.end()) {
    if (kept->second == set.value()) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("key '", set.key(), "' has another value"));
  }
  if (scope.bytes + bytes > limits_.bytes_per_scope) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the generation's keys hold ", scope.bytes, " bytes of ",
                     limits_.bytes_per_scope));
  }
  scope.bytes += bytes;
  scope.values[set.key()] = set.value();
  std::list<Waiter> waiters;
  for (auto it = scope.waiters.begin(); it != scope.waiters.end();) {
    const auto next = std::next(it);
    if (it->key == set.key()) waiters.splice(waiters.end(), scope.waiters, it);
    it = next;
  }
  AnswerAll(std::move(waiters), Found(set.value()));
  return absl::OkStatus();
}

void Rendezvous::Get(Scope& scope, const v1::RendezvousGet& get,
                     absl::Duration now, Answer answer) {
  if (get.key().empty() || get.key().size() > limits_.key_bytes) {
    return answer(absl::InvalidArgumentError(
        absl::StrCat("a key of ", get.key().size(), " bytes; the bound is ",
                     limits_.key_bytes)));
  }
  const auto kept = scope.values.find(get.key());
  if (kept != scope.values.end()) return answer(Found(kept->second));
  if (get.wait_ms() <= 0) return answer(v1::RendezvousResponse());
  if (scope.waiters.size() >= limits_.waiters_per_scope) {
    return answer(absl::ResourceExhaustedError(
        absl::StrCat(scope.waiters.size(), " calls wait already, the limit")));
  }
  const absl::Duration wait =
      std::min(absl::Milliseconds(get.wait_ms()), limits_.longest_wait);
  scope.waiters.push_back({get.key(), now + wait, std::move(answer)});
}

void Rendezvous::Expire(absl::Duration now) {
  std::list<Waiter> over;
  for (auto& [key, scope] : scopes_) {
    for (auto it = scope.waiters.begin(); it != scope.waiters.end();) {
      const auto next = std::next(it);
      if (it->until <= now) over.splice(over.end(), scope.waiters, it);
      it = next;
    }
  }
  AnswerAll(std::move(over), v1::RendezvousResponse());
}

}  // namespace evenstep::coordinator
