#include "planner/costs/cost_file.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "base/yaml.h"
#include "planner/costs/memory_model.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

// What the memory of a model may follow from.
struct DeviceMemory {
  int64_t device_bytes = 0;
  double margin = 0;
  int64_t parameters = 0;
  StateLayout states = StateLayout::kReplicatedFloat32;
  int states_over_ranks = 1;
  int shard_replicas = 0;
};

// Sets what one key stands for. Errors name file, line and key.
using Reader = std::function<absl::Status(const YamlEntry&)>;

enum class Presence { kRequired, kOptional };

struct Key {
  std::string name;
  Presence presence;
  Reader read;
};

class CostFile {
 public:
  explicit CostFile(absl::string_view name) : name_(name) {}

  absl::StatusOr<PublishedCosts> Read(const YamlNode& root) {
    EVENSTEP_RETURN_IF_ERROR(ReadMap(
        root, "",
        {Value("name", Presence::kOptional, &costs_.name),
         Value("source", Presence::kOptional, &costs_.source),
         // The other two depend on the kinds of layer.
         Part("model", [this](const YamlNode& n) { return ReadModel(n); }),
         Part("time", [this](const YamlNode& n) { return ReadTime(n); }),
         Part("memory", [this](const YamlNode& n) { return ReadMemory(n); })}));
    EVENSTEP_RETURN_IF_ERROR(CheckNumbers());
    return costs_;
  }

 private:
  absl::Status Error(int line, const std::string& sentence) const {
    return YamlError(name_, line, sentence);
  }
  absl::Status At(const YamlEntry& entry, const absl::Status& status) const {
    if (status.ok()) return status;
    return Error(entry.line, absl::StrCat(entry.key, ": ", status.message()));
  }

  template <typename T>
  Key Value(std::string key, Presence presence, T* value) const {
    return {std::move(key), presence, [this, value](const YamlEntry& entry) {
              if (entry.value.kind != YamlNode::Kind::kScalar) {
                return Error(entry.line,
                             absl::StrCat(entry.key, ": expected one value"));
              }
              return At(entry, ParseValue(entry.value.scalar, value));
            }};
  }
  static Key Part(std::string key,
                  std::function<absl::Status(const YamlNode&)> read,
                  Presence presence = Presence::kRequired) {
    return {std::move(key), presence,
            [read](const YamlEntry& entry) { return read(entry.value); }};
  }

  // Reads in the order of `keys`.
  absl::Status ReadMap(const YamlNode& node, const std::string& path,
                       const std::vector<Key>& keys) const {
    if (node.kind != YamlNode::Kind::kMap) {
      return Error(node.line,
                   absl::StrCat(path, " expected 'key: value' lines"));
    }
    for (const YamlEntry& entry : node.entries) {
      EVENSTEP_RETURN_IF_ERROR(CheckKnown(entry, path, keys));
    }
    for (const Key& key : keys) {
      const auto found = std::find_if(
          node.entries.begin(), node.entries.end(),
          [&](const YamlEntry& entry) { return entry.key == key.name; });
      if (found != node.entries.end()) {
        EVENSTEP_RETURN_IF_ERROR(key.read(*found));
      } else if (key.presence == Presence::kRequired) {
        return Error(node.line, absl::StrCat(path, key.name, " is missing"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckKnown(const YamlEntry& entry, const std::string& path,
                          const std::vector<Key>& keys) const {
    std::vector<std::string> names;
    for (const Key& key : keys) {
      if (key.name == entry.key) return absl::OkStatus();
      names.push_back(key.name);
    }
    return Error(entry.line, absl::StrCat("unknown key '", path, entry.key, "'",
                                          KnownNamesHint(entry.key, names)));
  }

  absl::Status ReadModel(const YamlNode& node) {
    ModelShape& model = costs_.model;
    model.num_layers = 0;
    model.kv_heads = 0;
    EVENSTEP_RETURN_IF_ERROR(ReadMap(
        node, "model.",
        {Value("num_layers", Presence::kOptional, &model.num_layers),
         Value("spatial_layers", Presence::kOptional, &model.spatial_layers),
         Value("temporal_layers", Presence::kOptional, &model.temporal_layers),
         Value("width", Presence::kOptional, &model.width),
         Value("heads", Presence::kRequired, &model.heads),
         Value("kv_heads", Presence::kOptional, &model.kv_heads),
         Value("expand_kv_heads", Presence::kOptional, &model.expand_kv_heads),
         Value("max_switch_degree", Presence::kOptional,
               &model.max_switch_degree),
         Part(
             "sp_modes", [this](const YamlNode& n) { return ReadModes(n); },
             Presence::kOptional),
         Part(
             "forced_degrees",
             [this](const YamlNode& n) { return ReadDegrees(n); },
             Presence::kOptional)}));
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    if (model.is_video() == (model.num_layers > 0)) {
      return Error(node.line,
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
      return Error(item.line,
                   absl::StrCat("model.sp_modes: '", item.scalar,
                                "' is not one of ulysses, kv_gather, both, "
                                "switch"));
    }
    return ExpectList(list, costs_.model.sp_modes.size());
  }

  absl::Status ReadDegrees(const YamlNode& list) {
    for (const YamlNode& item : list.items) {
      const absl::Status status =
          ParseValue(item.scalar, &costs_.model.forced_degrees.emplace_back());
      if (status.ok()) continue;
      return Error(item.line,
                   absl::StrCat("model.forced_degrees: ", status.message()));
    }
    return ExpectList(list, costs_.model.forced_degrees.size());
  }

  absl::Status ExpectList(const YamlNode& node, size_t size) const {
    if (node.kind == YamlNode::Kind::kList && size > 0) return absl::OkStatus();
    return Error(node.line, "expected a list of one entry or more");
  }

  absl::Status ReadLayerTime(const YamlNode& node, const std::string& path,
                             LayerTime* time) {
    return ReadMap(node, path, LayerTimeKeys(time));
  }

  std::vector<Key> LayerTimeKeys(LayerTime* time) {
    return {Value("linear_ns_per_token", Presence::kRequired,
                  &time->linear_ns_per_token),
            Value("quadratic_ns_per_token2", Presence::kRequired,
                  &time->quadratic_ns_per_token2),
            Value("attention_ns_per_token", Presence::kOptional,
                  &time->attention_ns_per_token),
            Value("sharded_attention_ns_per_token", Presence::kOptional,
                  &time->sharded_attention_ns_per_token)};
  }

  // A kind of layer of its own, or the text fields beside the others.
  std::vector<Key> KindKeys(LayerTime* text) {
    if (!costs_.model.is_video()) return LayerTimeKeys(text);
    return {Part("spatial",
                 [this](const YamlNode& n) {
                   return ReadLayerTime(n, "time.spatial.",
                                        &costs_.time.spatial);
                 }),
            Part("temporal", [this](const YamlNode& n) {
              return ReadLayerTime(n, "time.temporal.", &costs_.time.temporal);
            })};
  }

  Key Collective(std::string key,
                 std::vector<TimeModel::CollectiveCost>* costs) {
    const std::string path = absl::StrCat("time.", key, ".");
    return Part(
        std::move(key),
        [this, path, costs](const YamlNode& list) {
          for (const YamlNode& item : list.items) {
            TimeModel::CollectiveCost cost;
            EVENSTEP_RETURN_IF_ERROR(
                ReadMap(item, path,
                        {Value("degree", Presence::kRequired, &cost.degree),
                         Value("ns_per_token", Presence::kRequired,
                               &cost.ns_per_token)}));
            costs->push_back(cost);
          }
          return ExpectList(list, costs->size());
        },
        Presence::kOptional);
  }

  absl::Status ReadTime(const YamlNode& node) {
    TimeModel& time = costs_.time;
    LayerTime text;
    std::vector<Key> keys = KindKeys(&text);
    for (Key& key : std::vector<Key>{
             Value("micro_batch_fixed_ns", Presence::kRequired,
                   &time.micro_batch_fixed_ns),
             Value("step_fixed_ns", Presence::kOptional, &time.step_fixed_ns),
             Value("head_ns_per_token", Presence::kOptional,
                   &time.head_ns_per_token),
             Value("collective_latency_ns", Presence::kOptional,
                   &time.collective_latency_ns),
             Value("collective_latency_across_ns", Presence::kOptional,
                   &time.collective_latency_across_ns),
             Collective("collective", &time.collective),
             Collective("collective_across", &time.collective_across),
             Collective("gather", &time.gather),
             Collective("gather_across", &time.gather_across)}) {
      keys.push_back(std::move(key));
    }
    EVENSTEP_RETURN_IF_ERROR(ReadMap(node, "time.", keys));
    time.linear_ns_per_token = text.linear_ns_per_token;
    time.quadratic_ns_per_token2 = text.quadratic_ns_per_token2;
    time.attention_ns_per_token = text.attention_ns_per_token;
    time.sharded_attention_ns_per_token = text.sharded_attention_ns_per_token;
    return absl::OkStatus();
  }

  std::vector<Key> LayerMemoryKeys(int64_t* layer, int64_t* kept) {
    return {Value("layer_bytes_per_token", Presence::kOptional, layer),
            Value("kept_bytes_per_token", Presence::kOptional, kept)};
  }

  Key LayerMemoryOf(std::string key, LayerMemory* memory) {
    const std::string path = absl::StrCat("memory.", key, ".");
    return Part(
        std::move(key),
        [this, path, memory](const YamlNode& node) {
          return ReadMap(node, path,
                         LayerMemoryKeys(&memory->layer_bytes_per_token,
                                         &memory->kept_bytes_per_token));
        },
        Presence::kOptional);
  }

  absl::Status ReadMemory(const YamlNode& node) {
    MemoryModel& memory = costs_.memory;
    DeviceMemory device;
    std::vector<Key> keys = LayerMemoryKeys(&memory.layer_bytes_per_token,
                                            &memory.kept_bytes_per_token);
    if (costs_.model.is_video()) {
      keys = {LayerMemoryOf("spatial", &memory.spatial),
              LayerMemoryOf("temporal", &memory.temporal)};
    }
    for (Key& key : std::vector<Key>{
             Value("tokens_per_rank", Presence::kOptional,
                   &memory.tokens_per_rank),
             Value("activation_bytes", Presence::kOptional,
                   &memory.activation_bytes),
             Value("head_bytes_per_token", Presence::kOptional,
                   &memory.head_bytes_per_token),
             Value("gathered_bytes_per_token", Presence::kOptional,
                   &memory.gathered_bytes_per_token),
             Value("device_bytes", Presence::kOptional, &device.device_bytes),
             Value("margin", Presence::kOptional, &device.margin),
             Value("parameters", Presence::kOptional, &device.parameters),
             Value("states_over_ranks", Presence::kOptional,
                   &device.states_over_ranks),
             Value("shard_replicas", Presence::kOptional,
                   &device.shard_replicas),
             Part(
                 "states",
                 [this, &device](const YamlNode& n) {
                   return ReadStates(n, &device.states);
                 },
                 Presence::kOptional)}) {
      keys.push_back(std::move(key));
    }
    EVENSTEP_RETURN_IF_ERROR(ReadMap(node, "memory.", keys));
    return DeriveMemory(node.line, device);
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
    return Error(node.line, absl::StrCat("states: '", node.scalar,
                                         "' is not one of replicated_float32, "
                                         "zero1_float32, zero1_bfloat16"));
  }

  // One of the three ways to state memory, and no more.
  absl::Status DeriveMemory(int line, const DeviceMemory& device) {
    MemoryModel& memory = costs_.memory;
    const int num_ways = (memory.tokens_per_rank != 0 ? 1 : 0) +
                         (memory.activation_bytes != 0 ? 1 : 0) +
                         (device.device_bytes != 0 ? 1 : 0);
    if (num_ways != 1) {
      return Error(line,
                   "memory: exactly one of tokens_per_rank, activation_bytes "
                   "and device_bytes must be given");
    }
    if (device.device_bytes == 0) return absl::OkStatus();
    EVENSTEP_RETURN_IF_ERROR(CheckDevice(line, device));
    const int64_t states =
        device.parameters * StateBytesPerParameter(device.states,
                                                   device.states_over_ranks,
                                                   device.shard_replicas);
    memory.activation_bytes =
        std::llround((1 - device.margin) *
                     static_cast<double>(device.device_bytes)) -
        states;
    if (memory.activation_bytes > 0) return absl::OkStatus();
    return Error(line, absl::StrCat("memory: the states of ", device.parameters,
                                    " parameters take ", states,
                                    " bytes, all of device_bytes ",
                                    device.device_bytes, " less the margin"));
  }

  absl::Status CheckDevice(int line, const DeviceMemory& device) const {
    const bool ok =
        device.device_bytes > 0 && device.device_bytes <= kMaxActivationBytes &&
        device.margin >= 0 && device.margin < 1 && device.parameters >= 0 &&
        device.parameters <= kMaxActivationBytes / 64 &&
        device.states_over_ranks >= 1 &&
        device.states_over_ranks <= kMaxRanks && device.shard_replicas >= 0 &&
        device.shard_replicas < device.states_over_ranks;
    if (ok) return absl::OkStatus();
    return Error(line,
                 absl::StrCat("memory: device_bytes ", device.device_bytes,
                              ", margin ", device.margin, ", parameters ",
                              device.parameters, ", states_over_ranks ",
                              device.states_over_ranks, ", shard_replicas ",
                              device.shard_replicas, " are out of range"));
  }

  // All that a request with these costs would be refused for.
  absl::Status CheckNumbers() const {
    PlanRequest request;
    request.model = costs_.model;
    request.time = costs_.time;
    request.memory = costs_.memory;
    request.cluster.ranks_per_node = {1};
    request.samples = {{0, 1, 1, 1, 1, 1}};
    const absl::Status status = ValidateRequest(request);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", status.message()));
  }

  const std::string name_;
  PublishedCosts costs_;
};

}  // namespace

absl::StatusOr<PublishedCosts> ParseCosts(absl::string_view yaml,
                                          absl::string_view name) {
  EVENSTEP_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(yaml, name));
  return CostFile(name).Read(root);
}

}  // namespace evenstep::planner
