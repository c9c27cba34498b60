#ifndef EVENSTEP_WIRE_COST_PROTO_H_
#define EVENSTEP_WIRE_COST_PROTO_H_

// Costs between structs and v1::CostModel, by the table of
// planner/costs/cost_fields.h: every cost has a field of its own name in the
// message. `Time` is planner::TimeModel or client::Costs. Nothing is checked
// but that a name has a field, which the message's definition decides. Pure
// functions.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "evenstep/v1/plan.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/reflection.h"
#include "planner/costs/cost_fields.h"

namespace evenstep::wire {

// One number of a message, by name.
class CostField {
 public:
  CostField(const google::protobuf::Message& message, const std::string& name)
      : field_(message.GetDescriptor()->FindFieldByName(name)) {
    EVENSTEP_CHECK(field_ != nullptr, "every cost has a field of its name");
  }

  void Get(const google::protobuf::Message& from, int64_t* cost) const {
    *cost = from.GetReflection()->GetInt64(from, field_);
  }
  void Get(const google::protobuf::Message& from, double* cost) const {
    *cost = from.GetReflection()->GetDouble(from, field_);
  }
  void Set(int64_t cost, google::protobuf::Message* to) const {
    to->GetReflection()->SetInt64(to, field_, cost);
  }
  void Set(double cost, google::protobuf::Message* to) const {
    to->GetReflection()->SetDouble(to, field_, cost);
  }
  const google::protobuf::Message& Part(
      const google::protobuf::Message& from) const {
    return from.GetReflection()->GetMessage(from, field_);
  }
  google::protobuf::Message* Part(google::protobuf::Message* of) const {
    return of->GetReflection()->MutableMessage(of, field_);
  }
  google::protobuf::RepeatedFieldRef<v1::CollectiveCost> List(
      const google::protobuf::Message& from) const {
    return from.GetReflection()->GetRepeatedFieldRef<v1::CollectiveCost>(
        from, field_);
  }
  void Add(const v1::CollectiveCost& cost,
           google::protobuf::Message* to) const {
    to->GetReflection()
        ->GetMutableRepeatedFieldRef<v1::CollectiveCost>(to, field_)
        .Add(cost);
  }

 private:
  const google::protobuf::FieldDescriptor* const field_;
};

template <typename Time>
v1::CostModel CostsToProto(const Time& time) {
  v1::CostModel proto;
  planner::ForEachOwnCost(
      time, [&proto](const planner::CostKey& key, const auto& cost) {
        CostField(proto, key.name).Set(cost, &proto);
      });
  planner::ForEachKind(time, [&](const char* kind, const auto& layers) {
    if (!time.is_video()) return;
    google::protobuf::Message* const part = CostField(proto, kind).Part(&proto);
    planner::ForEachLayerCost(
        layers, planner::CostUse::kRare,
        [part](const planner::CostKey& key, const auto& cost) {
          CostField(*part, key.name).Set(cost, part);
        });
  });
  planner::ForEachCostList(time, [&](const char* name, const auto& costs) {
    for (const auto& entry : costs) {
      v1::CollectiveCost cost;
      cost.set_degree(entry.degree);
      cost.set_ns_per_token(entry.ns_per_token);
      CostField(proto, name).Add(cost, &proto);
    }
  });
  return proto;
}

template <typename Time>
Time CostsFromProto(const v1::CostModel& proto) {
  Time time;
  planner::ForEachOwnCost(time,
                          [&proto](const planner::CostKey& key, auto& cost) {
                            CostField(proto, key.name).Get(proto, &cost);
                          });
  planner::ForEachKind(time, [&proto](const char* kind, auto& layers) {
    const google::protobuf::Message& part = CostField(proto, kind).Part(proto);
    planner::ForEachLayerCost(layers, planner::CostUse::kRare,
                              [&part](const planner::CostKey& key, auto& cost) {
                                CostField(part, key.name).Get(part, &cost);
                              });
  });
  planner::ForEachCostList(time, [&proto](const char* name, auto& costs) {
    for (const auto& cost : CostField(proto, name).List(proto)) {
      costs.push_back({cost.degree(), cost.ns_per_token()});
    }
  });
  return time;
}

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_COST_PROTO_H_
