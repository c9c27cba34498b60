#ifndef EVENSTEP_WIRE_TESTING_MESSAGE_MUTATOR_H_
#define EVENSTEP_WIRE_TESTING_MESSAGE_MUTATOR_H_

// Changes random fields of a message to values that break code: for tests that
// speak to the coordinator or the agent as a broken peer would. The same seed
// makes the same changes. Not thread-safe.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace evenstep::wire::testing {

class MessageMutator {
 public:
  explicit MessageMutator(uint64_t seed) : random_(seed) {}

  // Changes one field, at any depth. Strings stay valid UTF-8.
  void ChangeOneField(google::protobuf::Message* message);

  // From 0 to below `bound`.
  int Below(int bound);
  bool OneIn(int times) { return Below(times) == 0; }

 private:
  struct Site {
    google::protobuf::Message* message;
    const google::protobuf::FieldDescriptor* field;
  };
  void Collect(google::protobuf::Message* message, std::vector<Site>* sites);
  void Change(const Site& site);
  void ChangeScalar(const Site& site);
  void ChangeList(const Site& site);
  void ChangeElement(const Site& site, int index);
  int64_t Integer(int64_t now);
  double Real(double now);
  std::string Text(const std::string& now);

  std::mt19937_64 random_;
};

}  // namespace evenstep::wire::testing

#endif  // EVENSTEP_WIRE_TESTING_MESSAGE_MUTATOR_H_
