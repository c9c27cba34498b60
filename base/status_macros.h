#ifndef EVENSTEP_BASE_STATUS_MACROS_H_
#define EVENSTEP_BASE_STATUS_MACROS_H_

// Early return on error values. Used everywhere; no state.
//
//   EVENSTEP_RETURN_IF_ERROR(store.Put(job));
//   EVENSTEP_ASSIGN_OR_RETURN(Plan plan, MakePlan(request));

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define EVENSTEP_RETURN_IF_ERROR(expr)                 \
  do {                                                 \
    ::absl::Status evenstep_status = (expr);           \
    if (!evenstep_status.ok()) return evenstep_status; \
  } while (false)

#define EVENSTEP_CONCAT_INNER(a, b) a##b
#define EVENSTEP_CONCAT(a, b) EVENSTEP_CONCAT_INNER(a, b)

#define EVENSTEP_ASSIGN_OR_RETURN(lhs, expr) \
  EVENSTEP_ASSIGN_OR_RETURN_IMPL(            \
      EVENSTEP_CONCAT(evenstep_statusor_, __LINE__), lhs, expr)

#define EVENSTEP_ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                                   \
  if (!var.ok()) return std::move(var).status();       \
  lhs = *std::move(var)

#endif  // EVENSTEP_BASE_STATUS_MACROS_H_
