#include "tests/templates/attention_backward/matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/random/case.h"
#include "tests/random/chance.h"
#include "tests/random/coverage.h"
#include "tests/support/covering.h"
#include "tests/templates/attention/mods.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

using Lengths = std::vector<std::int64_t>;

/// A configuration, complete or not, with what its problems have.
struct BackwardSchedule {
  const char* config;
  const char* fields = "";
  Lengths seq_q{1, 37, 64, 65, 130, 200, 300}, seq_kv{1, 50, 64, 129, 200, 253, 400};
  std::size_t draws = 1;  ///< times as many as of others
};

const BackwardSchedule schedules[] = {
    // As the tuner has them: the default, and one of each variant of the search space.
    {"", "", {0, 1, 9, 65, 130}, {0, 1, 50, 129, 200}, 3},
    {"search", "", {1, 37, 65, 130, 200, 300}, {1, 50, 129, 200, 253, 400}, 10},
    {"variant=simt", "dtype=f32"},
    {"variant=mma"},
    // dq is summed in global memory: by the multipliers or by a warpgroup of its own, in any order or in a fixed one.
    {"variant=wgmma,kernels=1,cluster=0"},
    {"variant=wgmma,kernels=1,cluster=0", "deterministic=1"},
    {"variant=wgmma,kernels=1,cluster=0,adders=1", "", {300, 500}, {250, 400}},
    {"variant=wgmma,roles=gradients,kernels=1", "head_dim=256"},
    // Clusters that add dq in shared memory, with blocks without keys.
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=1,cluster=2", "", {130, 300, 500}, {200, 250}},
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,cluster=4", "", {130, 300, 500}, {200, 250, 400}},
    {"variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0,cluster=8", "head_dim=64", {130, 200}, {250, 600, 1000}},
    // dq in a kernel of its own.
    {"variant=wgmma,kernels=2,roles=gradients", "head_dim=256"},
    {"variant=wgmma,kernels=2,roles=gradients,dq_tile_q=64", "head_dim=192"},
    {"variant=wgmma,kernels=2,roles=gradients,dq_tile_kv=96", "head_dim=192,head_dim_v=128"},
    {"variant=wgmma,kernels=2,roles=keys,tile_q=64,stages=2,ahead=1,dq_stages=3"},
    {"variant=wgmma,kernels=2,roles=keys,tile_q=64,stages=2,ahead=0,dq_tile_kv=96"},
    {"variant=wgmma,kernels=2,roles=keys,tile_q=128,stages=2,ahead=0,dq_tile_q=64,dq_tile_kv=128", "head_dim=64"},
    // Clusters whose blocks share the query heads of a key head.
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,head_split=2", "heads=5,kv_heads=1"},
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=1,head_split=2", "heads=4,kv_heads=2"},
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,head_split=4", "heads=8,kv_heads=2", {70, 100}, {130, 150}},
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,head_split=8", "heads=8,kv_heads=1", {70, 100}, {130, 150}},
    // Blocks that go through many keys.
    {"variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,adders=1,persistent=1", "", {130, 300}, {300, 453, 700}},
    {"variant=wgmma,roles=keys,tile_q=64,stages=3,ahead=0,persistent=1", "deterministic=1", {130, 300}, {300, 453, 700}},
    {"variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0,adders=1,persistent=1",
     "head_dim=64",
     {200, 700},
     {300, 500, 900}},
};

/// Tiles that are masked in part, and whole tiles of 64 and of 128 rows or columns.
constexpr const char* masks[] = {
    "__device__ bool mask_mod(int b, int h, int q, int k, const Aux&) { return k <= q && (q / 16 == k / 16 || (k + h + b) % "
    "5 == 0); }",
    "__device__ bool mask_mod(int, int h, int q, int k, const Aux&) { return q / 128 == k / 128 + h; }",
    "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q / 64 % 2 == k / 64 % 2; }"};
/// Shipped examples of score_mod, with the array of those whose derivative is 1.
constexpr std::pair<const char*, const char*> mods[] = {{"relative_bias", "bias"}, {"softcap", ""}, {"alibi", "slopes"}};
constexpr const char* derivative_of_one =
    "__device__ float score_mod_grad(float, int, int, int, int, const Aux&) { return 1; }";

constexpr std::int64_t groups[][2] = {{1, 1}, {2, 2}, {3, 3}, {2, 1}, {4, 2}, {6, 2}, {5, 1}};

/// Returns which of wgmma's kernels a configuration has; empty: another variant.
std::string kind_of(const Config& config) {
  if (config.variant() != "wgmma") return {};
  const auto number = [&](const char* field) { return config.fields.contains(field) ? config.fields.integer(field) : 0; };
  if (number("cluster") > 1) return "cluster";
  if (number("head_split") > 1) return "head_split";
  if (number("persistent") == 1) return "persistent";
  return number("kernels") == 2 ? "two kernels" : "one kernel";
}

struct BackwardCandidate {
  BackwardCase drawn;
  std::vector<std::string> features;
};

class BackwardDrawing {
 public:
  BackwardDrawing(const std::vector<DeviceInfo>& devices, std::uint64_t seed) : devices_(devices), chance_(seed) {}

  std::optional<BackwardCandidate> draw(const BackwardSchedule& schedule) {
    const bool wgmma = std::string_view(schedule.config).find("wgmma") != std::string_view::npos;
    Fields fixed = parse_fields(schedule.fields, "fields");
    const auto set = [&](const char* name, const Value& value) {
      if (!fixed.contains(name)) fixed.set(name, value);
    };
    set("seq_q", chance_.one_of(schedule.seq_q));
    set("seq_kv", chance_.one_of(schedule.seq_kv));
    const std::int64_t step = wgmma || chance_.with(0.5) ? 16 : 8;
    set("head_dim", chance_.with(0.4) ? 64 << chance_.below(3) : step * (1 + chance_.below(256 / step)));
    if (chance_.with(0.3)) set("head_dim_v", step * (1 + chance_.below(256 / step)));
    const auto& [heads, kv_heads] = groups[chance_.below(std::size(groups))];
    if (!fixed.contains("heads")) fixed.set("kv_heads", kv_heads);
    set("heads", heads);
    set("dtype", std::string(wgmma || chance_.with(0.7) ? chance_.with(0.5) ? "bf16" : "f16" : "f32"));
    // Other masks are drawn. Drawn functions of scores are for tests/random, where huge factors may make a result unknown.
    if (chance_.with(0.15)) set("mask_mod", std::string(chance_.one_of(masks)));
    const auto& [score_mod, array] = chance_.one_of(mods);
    const bool has_mod = chance_.with(0.25);
    set("score_mod", has_mod ? mod_example(score_mod) : std::string());
    if (has_mod && *array != '\0') {
      if (chance_.with(0.5)) set("daux", std::string(array));
      if (chance_.with(0.3)) set("score_mod_grad", std::string(derivative_of_one));
    }
    const auto first = static_cast<std::size_t>(chance_.below(static_cast<std::int64_t>(devices_.size())));
    constexpr Sizes sizes{300, 16e6, 4e8};
    const ParsedProblemPtr problem =
        draw_rest(find_op("attention_backward"), fixed, chance_.with(0.3), chance_.bits(), sizes, devices_[first]);
    if (problem == nullptr || !fits(*problem, sizes)) return std::nullopt;
    // With a dropout of 0.9999, f16 rounds weights of 1e4 to infinity: dk is NaN where the reference is not.
    const Fields& drawn = problem->problem().fields;
    if (drawn.contains("dropout") && drawn.real("dropout") > 0.9) return std::nullopt;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::size_t at = (first + i) % devices_.size();
      try {
        BackwardCandidate made{{{problem->problem(), config_of(*problem, schedule, devices_[at])}, at}, {}};
        add_features(made, schedule, *problem);
        return made;
      } catch (const Error& error) {  // the problem has no such configuration, or the device has none
        if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::unsupported) throw;
      }
    }
    return std::nullopt;
  }

 private:
  Config config_of(const ParsedProblem& problem, const BackwardSchedule& schedule, const DeviceInfo& device) {
    if (schedule.config != std::string_view("search"))
      return problem.complete_config(device, Config{parse_fields(schedule.config, "config")});
    const std::vector<Config> space = problem.search_space(device, Effort::full);
    std::set<std::string> variants;
    for (const Config& config : space) variants.insert(config.variant());
    const std::string& variant = chance_.one_of(variants);
    for (;;)
      if (const Config& config = chance_.one_of(space); config.variant() == variant) return config;
  }

  static void add_features(BackwardCandidate& made, const BackwardSchedule& schedule, const ParsedProblem& problem) {
    const auto& [c, device] = made.drawn;
    const std::string variant = c.config.variant(), kind = kind_of(c.config), dtype = c.problem.fields.string("dtype");
    const std::int64_t head_dim = c.problem.fields.integer("head_dim"), head_dim_v = c.problem.fields.integer("head_dim_v");
    std::vector<std::string>& features = made.features;
    features = {std::string(schedule.config) + " with " + schedule.fields, variant + " of " + dtype,
                std::to_string(device) + " has " + variant + " of " + dtype};
    if (variant == "wgmma")
      features.insert(features.end(), {"head_dim " + std::to_string(head_dim), "head_dim_v " + std::to_string(head_dim_v)});
    for (std::string& name : class_names({c.problem, c.config, Values::edge_cases, 1, {}}, problem, c.config))
      features.push_back(std::move(name));
    for (const auto& [name, value] : c.problem.fields) {
      const bool is_choice = std::holds_alternative<std::string>(value) || value == Value(std::int64_t{1});
      if (!is_choice && name != "softcap" && name != "dropout") continue;
      const std::string chosen = text(value);
      features.push_back((kind.empty() ? variant : kind) + " with " + name +
                         (chosen.size() < 16 && is_choice ? "=" + chosen : ""));
    }
    for (const char* mask : masks)
      if (const Value* given = c.problem.fields.find("mask_mod"); given != nullptr && *given == Value(std::string(mask)))
        features.push_back(kind + " with " + mask);
    for (const auto& [name, value] : c.config.fields) features.push_back(variant + " has " + name + "=" + text(value));
  }

  const std::vector<DeviceInfo>& devices_;
  Chance chance_;
};

}  // namespace

std::vector<BackwardCase> backward_matrix(const std::vector<DeviceInfo>& devices, std::uint64_t seed) {
  constexpr std::size_t draws = 60;
  BackwardDrawing drawing(devices, seed);
  std::vector<BackwardCandidate> candidates;
  std::vector<std::vector<std::string>> features;
  for (const BackwardSchedule& schedule : schedules)
    for (std::size_t i = 0; i < draws * schedule.draws; ++i)
      if (std::optional<BackwardCandidate> made = drawing.draw(schedule)) {
        features.push_back(made->features);
        candidates.push_back(std::move(*made));
      }
  std::vector<BackwardCase> chosen;
  for (const std::size_t i : covering_features(features)) chosen.push_back(candidates[i].drawn);
  std::printf("%zu of %zu cases cover all pairs\n", chosen.size(), candidates.size());
  return chosen;
}

void expect_complete(const std::vector<BackwardCase>& cases) {
  std::set<std::string> found;
  for (const BackwardCase& each : cases) {
    found.insert(each.c.config.variant());
    found.insert(kind_of(each.c.config));
    for (const auto& [name, value] : each.c.problem.fields) found.insert(name);
  }
  for (const FieldInfo& field : find_op("attention_backward").problem_fields())
    EXPECT_TRUE(found.contains(std::string(field.name))) << "no case has " << field.name;
  for (const char* kernels : {"simt", "mma", "wgmma", "one kernel", "two kernels", "cluster", "head_split", "persistent"})
    EXPECT_TRUE(found.contains(kernels)) << "no case of " << kernels;
}

}  // namespace tunesmith::test
