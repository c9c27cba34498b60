#include "planner/policies.h"

namespace evenstep::planner {

absl::Span<const PolicyRow> Policies() {
  static constexpr PolicyRow kRows[] = {
      {Policy::kStatic, "static", PlaceStatic},
      {Policy::kBalanced, "balanced", PlaceBalanced},
      {Policy::kPacked, "packed", PlacePacked},
      {Policy::kEven, "even", PlaceEven},
      {Policy::kBucket, "bucket", PlaceBucket},
      {Policy::kBucketTuned, "bucket-tuned", PlaceBucketTuned},
      {Policy::kDcpInter, "dcp-inter", PlaceDcpInter},
      {Policy::kDcpIntra, "dcp-intra", PlaceDcpIntra},
  };
  return kRows;
}

}  // namespace evenstep::planner
