#include "planner/models/published_costs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/yaml.h"
#include "planner/costs/cost_file.h"
#include "planner/costs/memory_model.h"
#include "planner/costs/yaml_reader.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

class CostFile {
 public:
  explicit CostFile(absl::string_view name) : name_(name), reader_(name) {}

  absl::StatusOr<PublishedCosts> Read(const YamlNode& root) {
    EVENSTEP_RETURN_IF_ERROR(reader_.ReadMap(
        root, "",
        {reader_.Value("name", Presence::kOptional, &costs_.name),
         reader_.Value("source", Presence::kOptional, &costs_.source),
         // The other two depend on the kinds of layer.
         YamlReader::Part("model",
                          [this](const YamlNode& n) { return ReadModel(n); }),
         YamlReader::Part(
             "time", [this](const YamlNode& n) { return ReadTimePart(n); }),
         YamlReader::Part(
             "memory", [this](const YamlNode& n) { return ReadMemory(n); })}));
    EVENSTEP_RETURN_IF_ERROR(CheckNumbers());
    return costs_;
  }

 private:
  absl::Status ReadModel(const YamlNode& node) {
    ModelShape& model = costs_.model;
    model.num_layers = 0;
    model.kv_heads = 0;
    EVENSTEP_RETURN_IF_ERROR(reader_.ReadMap(
        node, "model",
        {reader_.Value("num_layers", Presence::kOptional, &model.num_layers),
         reader_.Value("spatial_layers", Presence::kOptional,
                       &model.spatial_layers),
         reader_.Value("temporal_layers", Presence::kOptional,
                       &model.temporal_layers),
         reader_.Value("width", Presence::kOptional, &model.width),
         reader_.Value("heads", Presence::kRequired, &model.heads),
         reader_.Value("kv_heads", Presence::kOptional, &model.kv_heads),
         reader_.Value("expand_kv_heads", Presence::kOptional,
                       &model.expand_kv_heads),
         reader_.Value("max_switch_degree", Presence::kOptional,
                       &model.max_switch_degree),
         YamlReader::Part(
             "sp_modes", [this](const YamlNode& n) { return ReadModes(n); },
             Presence::kOptional),
         YamlReader::Part(
             "forced_degrees",
             [this](const YamlNode& n) { return ReadDegrees(n); },
             Presence::kOptional)}));
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    if (model.is_video() == (model.num_layers > 0)) {
      return reader_.Error(node.line,
                           "model: num_layers, or else spatial_layers and "
                           "temporal_layers, must be given");
    }
    if (model.is_video()) model.num_layers = 1;
    return absl::OkStatus();
  }

  absl::Status ReadModes(const YamlNode& list) {
    const std::pair<const char*, SpMode> modes[] = {
        {"ulysses", SpMode::kUlysses},
        {"kv_gather", SpMode::kKvGather},
        {"both", SpMode::kBoth},
        {"switch", SpMode::kSwitch}};
    for (const YamlNode& item : list.items) {
      const size_t before = costs_.model.sp_modes.size();
      for (const auto& [text, mode] : modes) {
        if (item.scalar == text) costs_.model.sp_modes.push_back(mode);
      }
      if (costs_.model.sp_modes.size() > before) continue;
      return reader_.Error(
          item.line, absl::StrCat("model.sp_modes: '", item.scalar,
                                  "' is not one of ulysses, kv_gather, both, "
                                  "switch"));
    }
    return reader_.ExpectList(list, costs_.model.sp_modes.size());
  }

  absl::Status ReadDegrees(const YamlNode& list) {
    for (const YamlNode& item : list.items) {
      const absl::Status status =
          ParseValue(item.scalar, &costs_.model.forced_degrees.emplace_back());
      if (status.ok()) continue;
      return reader_.Error(
          item.line, absl::StrCat("model.forced_degrees: ", status.message()));
    }
    return reader_.ExpectList(list, costs_.model.forced_degrees.size());
  }

  absl::Status ReadTimePart(const YamlNode& node) {
    EVENSTEP_ASSIGN_OR_RETURN(costs_.time,
                              ReadTime(node, name_, "time", CostsOf::kPlan));
    if (costs_.time.is_video() == costs_.model.is_video()) {
      return absl::OkStatus();
    }
    return reader_.Error(
        node.line, absl::StrCat("time: the costs are of a ",
                                costs_.time.is_video() ? "video" : "text",
                                " model, the file's is ",
                                costs_.model.is_video() ? "video" : "text"));
  }

  std::vector<YamlKey> LayerMemoryKeys(int64_t* layer, int64_t* kept,
                                       int64_t* backward) {
    return {reader_.Value("layer_bytes_per_token", Presence::kOptional, layer),
            reader_.Value("kept_bytes_per_token", Presence::kOptional, kept),
            reader_.Value("backward_bytes_per_token", Presence::kOptional,
                          backward)};
  }

  YamlKey LayerMemoryOf(std::string key, LayerMemory* memory) {
    const std::string path = absl::StrCat("memory.", key);
    return YamlReader::Part(
        std::move(key),
        [this, path, memory](const YamlNode& node) {
          return reader_.ReadMap(
              node, path,
              LayerMemoryKeys(&memory->layer_bytes_per_token,
                              &memory->kept_bytes_per_token,
                              &memory->backward_bytes_per_token));
        },
        Presence::kOptional);
  }

  absl::Status ReadMemory(const YamlNode& node) {
    MemoryModel& memory = costs_.memory;
    DeviceMemory device;
    std::vector<YamlKey> keys = LayerMemoryKeys(
        &memory.layer_bytes_per_token, &memory.kept_bytes_per_token,
        &memory.backward_bytes_per_token);
    if (costs_.model.is_video()) {
      keys = {LayerMemoryOf("spatial", &memory.spatial),
              LayerMemoryOf("temporal", &memory.temporal)};
    }
    for (YamlKey& key : std::vector<YamlKey>{
             reader_.Value("tokens_per_rank", Presence::kOptional,
                           &memory.tokens_per_rank),
             reader_.Value("activation_bytes", Presence::kOptional,
                           &memory.activation_bytes),
             reader_.Value("head_bytes_per_token", Presence::kOptional,
                           &memory.head_bytes_per_token),
             reader_.Value("gathered_bytes_per_token", Presence::kOptional,
                           &memory.gathered_bytes_per_token),
             reader_.Value("kv_head_bytes_per_token", Presence::kOptional,
                           &memory.kv_head_bytes_per_token),
             reader_.Value("device_bytes", Presence::kOptional,
                           &device.device_bytes),
             reader_.Value("margin", Presence::kOptional, &device.margin),
             reader_.Value("parameters", Presence::kOptional,
                           &device.parameters),
             reader_.Value("states_over_ranks", Presence::kOptional,
                           &device.states_over_ranks),
             reader_.Value("shard_replicas", Presence::kOptional,
                           &device.shard_replicas),
             YamlReader::Part(
                 "states",
                 [this, &device](const YamlNode& n) {
                   return ReadStates(n, &device.states);
                 },
                 Presence::kOptional)}) {
      keys.push_back(std::move(key));
    }
    EVENSTEP_RETURN_IF_ERROR(reader_.ReadMap(node, "memory", keys));
    absl::Status status = DeriveMemory(device, &memory);
    if (status.ok()) return status;
    return reader_.Error(node.line, absl::StrCat("memory: ", status.message()));
  }

  absl::Status ReadStates(const YamlNode& node, StateLayout* layout) const {
    const std::pair<const char*, StateLayout> layouts[] = {
        {"replicated_float32", StateLayout::kReplicatedFloat32},
        {"zero1_float32", StateLayout::kZero1Float32},
        {"zero1_bfloat16", StateLayout::kZero1Bfloat16}};
    for (const auto& [text, known] : layouts) {
      if (node.scalar != text) continue;
      *layout = known;
      return absl::OkStatus();
    }
    return reader_.Error(node.line,
                         absl::StrCat("states: '", node.scalar,
                                      "' is not one of replicated_float32, "
                                      "zero1_float32, zero1_bfloat16"));
  }

  // All that a request with these costs would be refused for.
  absl::Status CheckNumbers() const {
    PlanRequest request;
    request.model = costs_.model;
    request.time = costs_.time;
    request.memory = costs_.memory;
    request.cluster.ranks_per_node = {1};
    request.samples = {{0, 1, 1, 1, 1, 1}};
    absl::Status status = ValidateRequest(request);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", status.message()));
  }

  const std::string name_;
  const YamlReader reader_;
  PublishedCosts costs_;
};

}  // namespace

absl::StatusOr<PublishedCosts> ParseCosts(absl::string_view yaml,
                                          absl::string_view name) {
  EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, name));
  return CostFile(name).Read(root);
}

std::vector<std::string> PublishedCostNames() {
  std::vector<std::string> names;
  for (const BuiltinModel& model : BuiltinModels()) {
    names.emplace_back(model.name);
  }
  return names;
}

absl::StatusOr<PublishedCosts> FindPublishedCosts(absl::string_view name) {
  for (const BuiltinModel& model : BuiltinModels()) {
    if (name == model.name) return ParseCosts(model.yaml, model.name);
  }
  return absl::NotFoundError(
      absl::StrCat("no published costs are named '", name,
                   "'; known: ", absl::StrJoin(PublishedCostNames(), ", ")));
}

}  // namespace evenstep::planner
