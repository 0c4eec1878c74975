// Constants and entry points of the generated cross-entropy kernels, and how they are launched.

#include "templates/cross_entropy/source.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "templates/array_places.h"
#include "templates/cross_entropy/config.h"
#include "templates/cross_entropy/op.h"
#include "templates/cross_entropy/params.cuh"
#include "templates/folded_grid.h"
#include "templates/row/launch.h"
#include "templates/row/source.h"
#include "templates/strided/source.h"

namespace tunesmith {

using namespace cross_entropy;

namespace {

using Params = CrossEntropyParams;  // pointers and integers have the same offsets as in WideParams
using WideParams = CrossEntropyParamsOf<double>;

constexpr std::uint32_t reduction_threads = 1024;  // also there
constexpr std::int64_t rows_per_partial = 4096, rows_of_one_block = 8192;

/// Suffixes of the additional kernels; the operation's name precedes them.
constexpr const char *count_partials = "_count_partials", *count = "_count", *sum_partials = "_sum_partials", *sum = "_sum",
                     *class_weights = "_class_weights";

bool sums_class_weights(const Settings& settings) {
  return settings.kind == Kind::backward && settings.weight && settings.label_smoothing > 0;
}

/// Returns an entry point that takes the parameters of the row kernel.
std::string entry_point(const Settings& settings, const std::string& name, std::int64_t threads, const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ")\n" + name +
         "(const __grid_constant__ tunesmith::" + params_type(settings) + " params) {\n  tunesmith::" + call +
         "(params);\n}\n";
}

/// Allocates arrays in the workspace, after the space of the row kernel.
class Layout {
 public:
  explicit Layout(std::int64_t begin) : end_(begin) {}
  std::int64_t add(std::int64_t bytes) {
    const std::int64_t at = (end_ + 15) / 16 * 16;
    end_ = at + bytes;
    return at;
  }
  std::int64_t bytes() const noexcept { return end_; }

 private:
  std::int64_t end_;
};

std::size_t loss_params_bytes(const Settings& settings) { return settings.wide() ? sizeof(WideParams) : sizeof(Params); }
/// Returns the size of the parameters without strided logits; the address of dlse follows the loss's parameters.
std::size_t base_params_bytes(const Settings& settings) {
  return loss_params_bytes(settings) + (settings.lse_gradient ? sizeof(std::uint64_t) : 0);
}
std::size_t params_bytes(const Settings& settings) {
  return base_params_bytes(settings) + (settings.positions ? strided::params_of(*settings.positions).size() : 0);
}

/// Writes the parameters to the start of `bytes`, except the addresses of arrays. `places` has the addresses before `scale`,
/// which are the same for every Number.
template <typename Number>
void set_params(const Settings& settings, const CrossEntropyParams& places, std::vector<std::byte>& bytes) {
  CrossEntropyParamsOf<Number> params{};
  std::memcpy(&params, &places, offsetof(Params, scale));
  params.scale = static_cast<Number>(settings.scale);
  params.softcap = static_cast<Number>(settings.softcap);
  params.inverse_softcap = settings.softcap != 0 ? static_cast<Number>(1 / settings.softcap) : Number{0};
  params.hard_share = static_cast<Number>(1 - settings.label_smoothing);
  params.smooth_share = static_cast<Number>(settings.label_smoothing / static_cast<double>(settings.vocab_size));
  params.z_factor = static_cast<Number>(settings.z_loss);
  std::memcpy(bytes.data(), &params, sizeof params);
}

}  // namespace

namespace cross_entropy {

std::uint32_t pointer_offset(std::string_view array, const Settings& settings) {
  const bool backward = settings.kind == Kind::backward;
  const std::size_t rows = settings.positions ? base_params_bytes(settings) : offsetof(Params, row);
  const std::array<ArrayPlace, 15> places{
      {{"logits", rows + offsetof(RowParams, input)},
       {"dlogits", rows + offsetof(RowParams, output)},
       {"targets", offsetof(Params, targets)},
       {"weight", offsetof(Params, weight)},
       {"dloss", offsetof(Params, upstream)},
       {"dlse", loss_params_bytes(settings)},
       {"loss", offsetof(Params, loss)},
       {"lse", backward ? offsetof(Params, lse_in) : offsetof(Params, lse)},
       {"lse_low", settings.wide() ? offsetof(WideParams, lse_low) : offsetof(Params, lse_low)},
       {"z_loss", offsetof(Params, z_loss)},
       {"nll", backward ? offsetof(Params, nll_in) : offsetof(Params, nll)},
       {"argmax", offsetof(Params, argmax)},
       {"num_correct", offsetof(Params, num_correct)},
       {"bad_targets", offsetof(Params, bad_targets)},
       {"partials", offsetof(Params, shard_partials)}}};
  return offset_of(array, places);
}

std::string target_type_of(const Settings& settings) {
  return std::string("using TargetType = ") + (settings.target == DType::i64 ? "tunesmith::int64" : "int") + ";\n\n";
}

std::string options_text(const Settings& settings) {
  std::string text = "static constexpr tunesmith::CrossEntropyOptions options = {\n";
  const auto member = [&](bool present, const char* name) {
    if (present) text += "    ." + std::string(name) + " = true,\n";
  };
  member(settings.scale != 1, "scaled");
  member(settings.softcap != 0, "softcap");
  member(settings.label_smoothing != 0, "smoothing");
  member(settings.weight, "weights");
  member(settings.z_loss != 0, "z_loss");
  member(settings.lse_low, "lse_low");
  member(settings.nll, "nll");
  member(settings.finds_class(), "argmax");
  member(settings.has_gradient(), "gradient");
  member(settings.kind == Kind::shard, "shard");
  member(settings.writes_loss() && settings.reduced(), "reduced");
  member(settings.reduction == Reduction::mean && settings.kind != Kind::shard, "mean");
  member(settings.num_correct, "count_correct");
  member(settings.check_targets, "check_targets");
  if (settings.upstream != Upstream::none)
    text += std::string("    .upstream = tunesmith::Upstream::") + (settings.upstream == Upstream::row ? "row" : "scalar") +
            ",\n";
  member(settings.mark_ignored, "mark_ignored");
  member(settings.wide(), "wide");
  return text + "};\n";
}

std::string params_type(const Settings& settings) {
  std::string type = settings.lse_gradient ? "CrossEntropyLseParams" : "CrossEntropyParams";
  if (settings.wide()) type += "Of<double>";
  return settings.positions ? "StridedLogits<tunesmith::" + type + ">" : type;
}

std::vector<std::string> includes_of(const Settings& settings, const std::string& name,
                                     std::span<const std::string> overloads) {
  std::vector<std::string> includes;
  if (settings.wide()) includes = {"cross_entropy/arithmetic_f64.cuh", "cross_entropy/shard_f64.cuh"};
  includes.insert(includes.end(), overloads.begin(), overloads.end());
  includes.push_back("cross_entropy/" + name + ".cuh");
  return includes;
}

std::string size_check(const Settings& settings) {
  return "\nstatic_assert(sizeof(tunesmith::" + params_type(settings) + ") == " + std::to_string(params_bytes(settings)) +
         ", \"the host fills the parameters by this layout\");\n";
}

std::string totals_kernels(const Settings& settings, const std::string& name) {
  std::string text;
  const auto pair = [&](const char* parts, const char* whole, const char* before) {
    const std::string arguments = std::string("<TargetType, options, ") + before + ">";
    text += "\n" + entry_point(settings, name + parts, reduction_threads, "cross_entropy_partial_reduction" + arguments);
    text += "\n" + entry_point(settings, name + whole, reduction_threads, "cross_entropy_totals" + arguments);
  };
  if (settings.divides_gradient()) pair(count_partials, count, "true");
  if (settings.has_totals()) pair(sum_partials, sum, "false");
  if (sums_class_weights(settings))
    text += "\n" + entry_point(settings, name + class_weights, reduction_threads, "sum_class_weights");
  return text;
}

std::string what_for(const Settings& settings) {
  std::string what = "targets " + std::string(tunesmith::name(settings.target));
  const auto add = [&](bool present, const char* text) {
    if (present) what += std::string(", ") + text;
  };
  add(settings.gradient == Gradient::separate && settings.kind == Kind::loss, "dlogits in the same pass");
  add(settings.gradient == Gradient::in_place, "dlogits in place of logits");
  add(settings.label_smoothing != 0, "label smoothing");
  add(settings.z_loss != 0, "z-loss");
  add(settings.scale != 1, "scaled logits");
  add(settings.softcap != 0, "soft-capped logits");
  add(settings.weight, "class weights");
  add(settings.finds_class(), "argmax");
  add(settings.reduced(), settings.reduction == Reduction::mean ? "mean" : "sum");
  add(settings.lse_gradient, "with a gradient through lse");
  return what;
}

void complete_plan(const Settings& settings, const std::string& entry, std::span<const ArrayInfo> arrays,
                   const DeviceInfo& device, LaunchPlan& plan) {
  const row::Shape& shape = settings.shape;
  Params params{};
  std::memcpy(&params.row, plan.params.data(), sizeof params.row);
  if (plan.workspace_bytes == 0) plan.workspace_use = WorkspaceUse::scratch;
  Layout workspace(plan.workspace_bytes);
  const std::int64_t number_bytes = size_of(settings.number());
  const auto per_row = [&](bool present) { return present ? workspace.add(shape.rows * number_bytes) : 0; };
  params.row_losses = per_row(settings.has_totals() && settings.reduced());
  params.row_z_losses = per_row(settings.has_totals() && settings.reduced() && settings.z_loss != 0);
  params.row_weights = per_row(settings.has_totals() && settings.reduced() && settings.weight);
  params.row_correct = per_row(settings.num_correct);
  const bool has_sums = settings.has_totals() || settings.divides_gradient();
  params.partials = shape.rows > rows_of_one_block ? (shape.rows + rows_per_partial - 1) / rows_per_partial : 0;
  const std::int64_t totals_bytes = settings.wide() ? 96 : 56;  // of TotalsAndRows in cross_entropy/reduction.cuh
  if (has_sums) params.partial_totals = workspace.add(params.partials * totals_bytes);
  if (has_sums || sums_class_weights(settings)) params.totals = workspace.add(4 * number_bytes);
  plan.workspace_bytes = workspace.bytes();
  plan.workspace_offset = offsetof(Params, row.workspace);
  params.ignore_index = settings.ignore_index;
  params.vocab_start = settings.vocab_start;
  params.vocab_size = settings.vocab_size;
  params.shards = settings.shards;
  plan.params.resize(base_params_bytes(settings));
  if (settings.wide())
    set_params<double>(settings, params, plan.params);
  else
    set_params<float>(settings, params, plan.params);
  if (settings.positions) {
    const std::vector<std::byte> strided = strided::params_of(*settings.positions);
    plan.params.insert(plan.params.end(), strided.begin(), strided.end());
  }
  for (const ArrayInfo& array : arrays)
    plan.pointers.push_back({array.name, pointer_offset(array.name, settings), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, false, array.in_place_of.empty() ? -1 : 0});

  const auto one = [&](const char* suffix, std::int64_t blocks) {
    KernelLaunch launch;
    launch.entry = entry + suffix;
    launch.block = {reduction_threads, 1, 1};
    launch.grid = folded_grid(blocks);
    return launch;
  };
  const auto totals = [&](const char* parts, const char* whole) {
    std::vector<KernelLaunch> kernels;
    if (params.partials > 0) kernels.push_back(one(parts, params.partials));
    kernels.push_back(one(whole, 1));
    return kernels;
  };
  std::vector<KernelLaunch> kernels;
  if (shape.rows > 0 && sums_class_weights(settings)) kernels.push_back(one(class_weights, 1));
  if (shape.rows > 0 && settings.divides_gradient())
    for (KernelLaunch& launch : totals(count_partials, count)) kernels.push_back(std::move(launch));
  // The kernels that count and add take as long as their launches. Each waits for the one before it, and the row kernel
  // waits before it reads the divisor; two row kernels of a gradient, and sums of class weights, are not waited for in this
  // way.
  const bool overlaps = device.overlaps_launches();
  const bool counts_last = overlaps && settings.divides_gradient() && !kernels.empty();
  if (counts_last && params.partials > 0) kernels.back().overlaps = true;
  if (counts_last && plan.kernels.size() == 1) plan.kernels.front().overlaps = true;
  if (!plan.kernels.empty()) plan.main_kernel += kernels.size();
  for (KernelLaunch& launch : plan.kernels) kernels.push_back(std::move(launch));
  // Also without rows: a sum is 0 then, and a mean NaN.
  if (settings.has_totals()) {
    for (KernelLaunch& launch : totals(sum_partials, sum)) {
      launch.overlaps = overlaps && !kernels.empty();
      kernels.push_back(std::move(launch));
    }
  }
  plan.kernels = std::move(kernels);
}

}  // namespace cross_entropy

SourceParts ParsedCrossEntropy::parts_of(const LossConfig& config) const {
  const Settings& settings = settings_;
  const std::string entry(op().name());
  SourceParts parts;
  const std::string target_type = target_type_of(settings);
  std::string arguments = "Types, TargetType, shape, options, config";
  if (const auto* const row = std::get_if<row::TypedConfig>(&config.kind)) {
    const row::TypedConfig& typed = *row;
    Settings viewed = settings;
    viewed.shape = typed.view(settings.shape);
    parts.specialized_for = row::specialized_for(viewed.shape);
    parts.min_arch = row::min_arch(typed, viewed.shape);
    row::describe(typed, viewed.shape,
                  std::string("the maximum logit, the sum of exponentials without the target's, and the loss") +
                      (settings.has_gradient() ? " with its gradient" : ""),
                  parts);
    parts.constants =
        row::constants(typed, viewed.shape) + "\n" + target_type + options_text(settings) + size_check(settings);
    const auto kernel = [&](const std::string& kernel_name, const std::string& function) {
      row::RowAddresses addresses = row::addresses_of(viewed.shape, params_type(settings));
      addresses.near = "targets";
      addresses.near_type = "TargetType";
      return row::kernel(typed, kernel_name, params_type(settings), function, arguments, {viewed.shape, addresses});
    };
    const char* file = "tiled";
    if (typed.holds_row()) {
      file = viewed.shape.staged_rows > 0 ? "staged" : "resident";
      arguments += ", Group, Storage";
      parts.kernel = "cross_entropy_resident";
    } else if (typed.variant == row::Variant::pipeline) {
      file = "pipeline";
      parts.kernel = "cross_entropy_pipeline";
    } else {
      const bool split = typed.variant == row::Variant::split;
      if (split) parts.kernels = kernel(entry + "_sums", "cross_entropy_split_sums") + "\n";
      arguments += std::string(", tunesmith::Finish") +
                   (settings.kind == Kind::shard ? "Partial" : (settings.has_gradient() ? "Gradient" : "Loss"));
      parts.kernel = split ? "cross_entropy_split" : "cross_entropy_two_pass";
    }
    parts.includes = includes_of(settings, file, row::overloads(typed, viewed.shape));
    parts.kernels += kernel(entry, parts.kernel);
  } else if (const auto* const tiled = std::get_if<TileConfig>(&config.kind)) {
    const TileConfig& typed = *tiled;
    row::TypedConfig tiles;  // a split row has the constants of tiles
    tiles.variant = row::Variant::split;
    tiles.threads = typed.threads;
    tiles.unroll = typed.unroll;
    tiles.blocks_per_row = static_cast<int>(typed.blocks_per_row(settings.shape));
    tiles.load = tiles.load_again = typed.load;
    tiles.store = typed.store;
    parts.specialized_for = row::specialized_for(settings.shape);
    parts.min_arch = row::min_arch(tiles, settings.shape);
    parts.includes = includes_of(settings, "backward");
    parts.kernel = "cross_entropy_backward";
    parts.algorithm = "one read and one write: dlogits elementwise from the row's lse";
    parts.threads = "one block of " + std::to_string(tiles.threads) + " threads per tile of a row, " +
                    std::to_string(tiles.unroll) + " vectors of " + std::to_string(settings.shape.vector()) +
                    " elements per thread";
    parts.constants =
        row::constants(tiles, settings.shape) + "\n" + target_type + options_text(settings) + size_check(settings);
    parts.kernels = row::kernel(tiles, entry, params_type(settings), parts.kernel, arguments);
  } else {
    constexpr int threads = CombineConfig::threads;
    parts.includes = includes_of(settings, settings.wide() ? "combine_f64" : "combine");
    parts.kernel = "cross_entropy_combine";
    parts.algorithm = "combines the partials of the vocabulary shards for each row";
    parts.threads = "one thread per row";
    parts.constants = target_type + options_text(settings) + size_check(settings);
    parts.kernels =
        entry_point(settings, entry, threads, parts.kernel + "<TargetType, options, " + std::to_string(threads) + ">");
  }
  parts.specialized_for.emplace_back("loss", what_for(settings));
  parts.kernels += totals_kernels(settings, entry);
  return parts;
}

LaunchPlan ParsedCrossEntropy::plan_of(const LossConfig& config, const DeviceInfo& device) const {
  const Settings& settings = settings_;
  const row::Shape& shape = settings.shape;
  const std::string entry(op().name());
  LaunchPlan plan;
  if (const auto* const typed = std::get_if<row::TypedConfig>(&config.kind)) {
    plan = row::launch_plan(*typed, shape, device, entry, {}, {}, stored_partial_bytes(settings));
    // Without a gradient, one block combines the partials of a row.
    if (typed->variant == row::Variant::split && !settings.has_gradient() && shape.rows > 0) {
      plan.kernels.back().grid = folded_grid(shape.rows);
      plan.kernels.back().overlaps = device.overlaps_launches();
    }
  } else {
    row::TypedConfig tiles;
    tiles.variant = row::Variant::two_pass;
    plan = row::launch_plan(tiles, shape, device, entry, {});
    int threads = CombineConfig::threads;
    std::int64_t blocks = (shape.rows + threads - 1) / threads;
    if (const auto* const tiled = std::get_if<TileConfig>(&config.kind)) {
      threads = tiled->threads;
      blocks = shape.rows * tiled->blocks_per_row(shape);
    }
    if (shape.rows > 0) {
      plan.kernels.front().block = {static_cast<std::uint32_t>(threads), 1, 1};
      plan.kernels.front().grid = folded_grid(blocks);
    }
  }

  complete_plan(settings, entry, array_view(), device, plan);
  return plan;
}

}  // namespace tunesmith
