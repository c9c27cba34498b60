#ifndef EVENSTEP_COORDINATOR_STORE_SQLITE_SCHEMA_H_
#define EVENSTEP_COORDINATOR_STORE_SQLITE_SCHEMA_H_

// The tables of the store (sqlite_job_store.h) and how a file comes to have
// them. Stateless.

#include "absl/status/status.h"
#include "coordinator/store/sqlite_database.h"

namespace evenstep::coordinator {

// Version that this program writes. Files of newer versions are refused.
inline constexpr int kStoreVersion = 2;

// Sets the file up, looks whether it is whole, and brings it to kStoreVersion.
// DATA_LOSS: it is damaged. FAILED_PRECONDITION: written by a newer version.
absl::Status PrepareStore(Database& database);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STORE_SQLITE_SCHEMA_H_
