#include "templates/attention_backward/aux_gradient.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "templates/attention/reference/user_scores.h"
#include "templates/folded_grid.h"
#include "templates/source_text.h"

namespace tunesmith::attention_backward {
namespace {

constexpr std::int64_t aux_threads = 256;  // as in aux_gradient.cuh

std::int64_t tile_bytes(std::int64_t tile_q, std::int64_t tile_kv) { return 2 * tile_q * (tile_kv + 8) * 4; }  // AuxTile

/// The queries of a block, and its threads.
std::int64_t kept(const TypedConfig& config, const Settings& settings) {
  return config.variant == Variant::simt ? config.tile_q : aux_pass(settings).kept;
}
std::int64_t threads(const TypedConfig& config, const Settings& settings) {
  return config.variant == Variant::simt ? config.threads : aux_pass(settings).warps * 32;
}

std::int64_t mma_bytes(const MmaPass& pass, const Settings& settings) {
  TypedConfig config;
  config.variant = Variant::mma;
  config.queries = pass;
  return config.smem_bytes(Pass::queries, settings) + tile_bytes(pass.kept, pass.streamed);
}

std::int64_t blocks_of(std::int64_t elements) {
  return std::clamp<std::int64_t>((elements + aux_threads - 1) / aux_threads, 1, 1024);
}

/// Returns a launch that evaluates derivatives by the element of read number `wanted`.
LaunchPlan term_plan(const Settings& settings, const AuxElements& elements, int wanted, std::int64_t rows,
                     std::int64_t keys) {
  LaunchPlan plan = attention::modification_plan(settings.forward, attention::ModificationEntry::scores, rows, keys);
  AuxTermParams params{};
  std::ranges::copy(elements.first, params.first);
  params.wanted = wanted;
  std::memcpy(&params.modification, plan.params.data(), sizeof params.modification);
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.kernels[0].entry = "attention_aux_terms";
  plan.pointers.push_back({"elements", offsetof(AuxTermParams, elements), 8, rows * keys * 8, true, false, -1});
  return plan;
}

}  // namespace

AuxElements::AuxElements(const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  for (std::size_t i = 0; i < forward.aux.size(); ++i) {
    first[i] = all;
    if (settings.daux.array_of(forward.aux[i].name) == nullptr) continue;
    lengths[i] = forward.aux[i].length(forward.dimensions());
    all += lengths[i];
  }
}

std::vector<std::string> differentiated_arrays(const Settings& settings) {
  std::vector<std::string> names;
  for (const std::string& array : settings.daux.arrays()) names.emplace_back(AttentionAuxGradients::name_in(array));
  return names;
}

MmaPass aux_pass(const Settings& settings) {
  constexpr std::int64_t least = 99 << 10;  // a block's shared memory on every GPU of sm_80 and later
  constexpr std::array<int, 3> streamed{64, 32, 16};
  for (const int tile_kv : streamed)
    if (const MmaPass pass{4, 64, tile_kv, 1, false}; mma_bytes(pass, settings) <= least) return pass;
  return {2, 32, 16, 1, false};
}

std::int64_t aux_smem_bytes(const TypedConfig& config, const Settings& settings) {
  if (config.variant != Variant::simt) return mma_bytes(aux_pass(settings), settings);
  return config.smem_bytes(Pass::queries, settings) + tile_bytes(config.tile_q, config.tile_kv);
}

std::string aux_config_text(const TypedConfig& config, const Settings& settings) {
  if (settings.daux.empty()) return {};
  const std::string bytes = std::to_string(aux_smem_bytes(config, settings));
  const std::string why = ", \"must equal the shared memory that the host requests\");\n";
  if (config.variant == Variant::simt)
    return "static_assert(tunesmith::AuxSimtTiles<shape, config>::smem_bytes == " + bytes + why;
  const MmaPass pass = aux_pass(settings);
  return "static constexpr tunesmith::MmaBackwardConfig aux_config = {\n" + member("warps", pass.warps) +
         member("kept", pass.kept) + member("streamed", pass.streamed) + member("stages", pass.stages) + "};\n\n" +
         "static_assert(tunesmith::AuxMmaTiles<shape, aux_config>::smem_bytes == " + bytes + why;
}

std::string aux_entries(const TypedConfig& config, const Settings& settings, const std::string& common) {
  if (settings.daux.empty()) return {};
  const std::string argument = config.variant == Variant::wgmma ? "WgmmaBackwardAuxParams" : "AttentionBackwardAuxParams";
  const auto entry = [&](const std::string& name, std::int64_t block_threads, const std::string& call) {
    return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(block_threads) + ")\n" + name +
           "(const __grid_constant__ tunesmith::" + argument + " params) {\n  tunesmith::" + call + "(" + common +
           ", params.aux);\n}\n";
  };
  const auto terms = [&](const std::string& name, const char* pass) {
    const bool simt = config.variant == Variant::simt;
    return entry(name, threads(config, settings),
                 std::string(simt ? "attention_backward_aux_simt" : "attention_backward_aux_mma") +
                     "<Element, shape, backward, " + attention::modification_type(settings.forward) +
                     (simt ? ", config" : ", aux_config") + ", tunesmith::AuxPass::" + pass + ">");
  };
  std::string text = entry("attention_backward_aux_start", aux_threads, "attention_backward_aux_start<backward>");
  if (settings.deterministic)
    text += terms("attention_backward_aux_largest", "largest") + terms("attention_backward_aux", "count");
  else
    text += terms("attention_backward_aux", "add");
  text += entry("attention_backward_aux_end", aux_threads, "attention_backward_aux_end<backward>");
  return text +
         "\n// Evaluates the derivative of score_mod by elements of arrays alone, for the check against the reference.\n"
         "static_assert(sizeof(tunesmith::AuxTermParams) == " +
         std::to_string(sizeof(AuxTermParams)) +
         ", \"the host fills the parameters by this layout\");\n"
         "extern \"C\" __global__ void __launch_bounds__(tunesmith::modification_threads)\n"
         "attention_aux_terms(const __grid_constant__ tunesmith::AuxTermParams params) {\n"
         "  tunesmith::evaluate_aux_terms<shape, user_text::Modification>(params);\n}\n";
}

AuxGradients aux_parameters(const Settings& settings, std::int64_t sums_at) {
  const AuxElements elements(settings);
  const attention::Settings& forward = settings.forward;
  AuxGradients params{};
  std::ranges::copy(elements.first, params.first);
  std::ranges::copy(elements.lengths, params.lengths);
  params.elements = elements.all;
  params.sums_at = sums_at;
  params.largest_at = sums_at + elements.all * 8;
  params.stride = blocks_of(elements.all) * aux_threads;
  // The integers of all pairs fit into 64 bits, with room for some reads of the same element by a pair. Sums of neighbours
  // count once.
  const double pairs = static_cast<double>(forward.batch * forward.heads) * static_cast<double>(forward.seq_q) *
                       static_cast<double>(forward.seq_kv);
  params.shift = std::clamp(60 - static_cast<int>(std::ceil(std::log2(std::max(pairs, 1.0)))), 24, 40);
  return params;
}

std::int64_t aux_workspace_bytes(const Settings& settings) {
  if (settings.daux.empty()) return 0;
  return AuxElements(settings).all * (settings.deterministic ? 12 : 4);
}

void add_aux_launches(const TypedConfig& config, const Settings& settings, bool pairs, std::vector<KernelLaunch>& kernels) {
  if (settings.daux.empty()) return;
  const std::int64_t elements = AuxElements(settings).all;
  if (elements == 0) return;
  const attention::Settings& forward = settings.forward;
  const std::int64_t tile_q = kept(config, settings), tiles = (forward.seq_q + tile_q - 1) / tile_q;
  kernels.push_back(folded_launch("attention_backward_aux_start", blocks_of(elements), aux_threads, 0));
  const auto add_terms = [&](const char* entry) {
    if (pairs)
      kernels.push_back(folded_launch(entry, tiles * forward.heads * forward.batch, threads(config, settings),
                                      aux_smem_bytes(config, settings)));
  };
  if (settings.deterministic) add_terms("attention_backward_aux_largest");
  add_terms("attention_backward_aux");
  kernels.push_back(folded_launch("attention_backward_aux_end", blocks_of(elements), aux_threads, 0));
}

std::vector<std::vector<std::vector<AuxDerivative>>> aux_derivatives(const Settings& settings,
                                                                     std::span<const HostArray> arrays,
                                                                     const Evaluate& evaluate,
                                                                     std::span<const attention::Reference::Query> queries) {
  const AuxElements elements(settings);
  const attention::UserScores user_scores(settings.forward, arrays, evaluate);
  std::vector<std::vector<std::vector<AuxDerivative>>> all;
  for (const attention::Reference::Query& query : queries) all.emplace_back(query.scores.size());
  bool more = true;
  for (int wanted = 0; more; ++wanted) {
    more = false;
    const attention::UserScores::Results results = user_scores.evaluate(
        [&](std::int64_t rows, std::int64_t keys) { return term_plan(settings, elements, wanted, rows, keys); }, true,
        queries);
    for (std::size_t i = 0; i < queries.size(); ++i)
      for (std::size_t j = 0; j < queries[i].scores.size(); ++j) {
        const std::size_t low = 3 * i * results.keys + j, middle = low + results.keys, high = middle + results.keys;
        const std::int64_t element = results.elements[middle];
        const double derivative = results.values[middle];
        // The function's own arithmetic, as in UserScores::derivatives().
        double error = (1 + std::fabs(derivative)) * 0x1p-20;
        for (const std::size_t end : {low, high}) {
          const double other = results.values[end];
          if (results.elements[end] == element)
            error = std::max(error, std::fabs(other - derivative) + (1 + std::fabs(derivative)) * 0x1p-20);
          else if (results.elements[end] >= 0)  // rounding decides which element is read
            all[i][j].push_back({results.elements[end], {0, std::fabs(other)}});
          if (results.elements[end] != element) error += std::fabs(derivative);
          more = more || results.elements[end] >= 0;
        }
        if (element < 0) continue;
        more = true;
        all[i][j].push_back({element, {derivative, error}});
      }
  }
  return all;
}

}  // namespace tunesmith::attention_backward
