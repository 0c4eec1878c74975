#include "templates/row/source.h"

#include "templates/row/params.cuh"
#include "templates/row/prefetch.h"
#include "templates/row/schedules/pipeline.h"
#include "templates/row/stagger.h"
#include "templates/source_text.h"

namespace tunesmith::row {
namespace {

std::string resident_config(const TypedConfig& config, const Shape& shape) {
  const std::int64_t in_registers = config.vectors_in_registers(shape);
  return "static constexpr tunesmith::ResidentConfig config = {\n" + member("register_vectors", in_registers) +
         member("shared_vectors", config.vectors_per_thread(shape) - in_registers) +
         member("load", source_name(config.load)) + member("store", source_name(config.store)) +
         (config.sized_by_row == 1 ? member("sized_by_row", true) : "") + "};\n";
}

std::string pipeline_config(const TypedConfig& config, const Shape& shape) {
  const std::string hint(config.load == LoadHint::plain ? "evict_normal" : enum_name(config.load));
  return "static constexpr tunesmith::PipelineConfig config = {\n" + member("warps", config.threads / 32) +
         member("blocks_per_row", config.blocks_per_row) + member("stages", config.stages) +
         member("chunk_bytes", config.chunk_bytes) + member("ahead", config.ahead) +
         member("control_bytes", pipeline_control_bytes(config, shape)) + member("load", "tunesmith::L2Hint::" + hint) +
         member("store", source_name(config.store)) + "};\n";
}

std::string persistent_config(const TypedConfig& config, const Shape& shape) {
  return "static constexpr tunesmith::PersistentConfig config = {\n" + member("vectors", config.vectors_per_thread(shape)) +
         member("batches", config.stages) + member("rows_at_once", config.batch) +
         member("keeps_columns", config.keep_columns == 1) + member("store", source_name(config.store)) + "};\n";
}

std::string group(const TypedConfig& config) {
  const std::string threads = std::to_string(config.threads);
  const std::string blocks = std::to_string(config.blocks_per_row);
  switch (config.variant) {
    case Variant::warp:
      if (config.access == Access::staged)
        return "StagedLaneGroup<" + threads + ", " + std::to_string(config.lanes) + ", " + std::to_string(config.rounds) +
               ">";
      return "LaneGroup<" + threads + ", " + std::to_string(config.lanes) + ">";
    case Variant::cluster: return "ClusterGroup<" + threads + ", " + blocks + ">";
    case Variant::grid: return "GridGroup<" + threads + ", " + blocks + ">";
    case Variant::persistent: return "ProgramGroup<" + threads + ", " + blocks + ">";
    default: return "BlockGroup<" + threads + ">";
  }
}

/// Returns the storage policy of a resident row: "tunesmith::InRegisters<tunesmith::PackedVector>".
std::string storage(const TypedConfig& config, const Shape& shape) {
  // Grids always use the general storage: only then does the compiler keep their exchanged values in registers.
  const bool shared =
      config.variant == Variant::grid || config.vectors_per_thread(shape) > config.vectors_in_registers(shape);
  return std::string("tunesmith::InRegisters") + (shared ? "AndSharedMemory" : "") +
         "<tunesmith::" + (config.registers == Registers::packed ? "PackedVector" : "FloatVector") + ">";
}

/// Returns the type of a kernel whose rows are resident; empty for others.
std::string prefetch_type(const TypedConfig& config, const Shape& shape) {
  if (!config.holds_row() || config.variant == Variant::persistent) return "";
  if (config.prefetch_blocks == 0 || shape.staged_rows > 0) return "NoPrefetch";  // staged: see staged_kernel()
  return "PrefetchLaterRow<" + prefetch_arguments(config, shape) + ">";
}

std::string features(const TypedConfig& config, const Shape& shape, const FeatureTypes& more) {
  const Options& options = shape.options;
  const bool ragged = (options.causal || options.valid_cols) && shape.vector() > 1;
  const bool guarded = shape.actual_cols != 0;
  const std::string edges =
      shape.crosses_ends() ? (guarded ? "GuardedEdges" : "StraightEdges") : (guarded ? "GuardedVectors" : "WholeVectors");
  const auto of_any = [&](const std::string& type) {
    return shape.has_bytes() ? "ByteEdges<tunesmith::" + type + ">" : type;
  };
  FeatureTypes types{{"Edges", of_any(edges)}, {"SeenEdges", of_any(ragged ? "BranchedEdges" : edges)}};
  if (shape.staged_rows > 0)
    types = {{"Edges", "SharedVectors"}, {"SeenEdges", ragged ? "SharedElements" : "SharedVectors"}};
  types.emplace_back("Mask", options.mask == Mask::none   ? "NoMask"
                             : options.mask == Mask::keep ? "KeepMask"
                                                          : "AddMask<" + device_type(options.mask_dtype) + ">");
  if (const std::string prefetch = prefetch_type(config, shape); !prefetch.empty()) types.emplace_back("Prefetch", prefetch);
  types.insert(types.end(), more.begin(), more.end());
  std::string text = "template <>\nstruct tunesmith::RowFeatures<shape> {\n";
  for (const auto& [name, type] : types) text += "  using " + name + " = tunesmith::" + type + ";\n";
  return text + "};\n\n";
}

}  // namespace

std::string constants(const TypedConfig& config, const Shape& shape, const FeatureTypes& more,
                      const std::string& definitions) {
  const Options& options = shape.options;
  std::string text = definitions;
  if (text.empty())
    text = "struct Types {\n  using Input = " + device_type(shape.input) +
           ";\n  using Output = " + device_type(shape.output) + ";\n};\n\n";
  // Members with default values are omitted.
  text += "static constexpr tunesmith::RowShape shape = {\n" + member("cols", shape.cols);
  if (shape.min_cols > 0) text += member("min_cols", shape.min_cols);
  text += member("vector", shape.vector());
  if (shape.shifted()) text += member("shifted", true) + member("line", shape.line());
  if (shape.cost.logarithm) text += member("logarithm", true);
  if (options.scaled()) text += member("scaled", true);
  if (options.causal) text += member("causal", true);
  if (options.valid_cols) text += member("valid_cols", true);
  if (options.safe) text += member("safe", true);
  if (shape.is_masked()) text += member("mask_vector", shape.mask_vector());
  if (shape.wide()) text += member("wide", true);
  if (shape.staged_rows > 0) text += member("staged_rows", shape.staged_rows);
  text += "};\n\n" + features(config, shape, more);
  if (config.variant == Variant::persistent) {
    text += persistent_config(config, shape) + "\nusing Group = tunesmith::" + group(config) + ";\n";
  } else if (config.holds_row()) {
    text += resident_config(config, shape) + "\nusing Group = tunesmith::" + group(config) +
            ";\nusing Storage = " + storage(config, shape) + ";\n";
  } else if (config.variant == Variant::pipeline) {
    text += pipeline_config(config, shape);
  } else {
    text += "static constexpr tunesmith::TiledConfig config = {\n" + member("threads", config.threads) +
            member("unroll", config.unroll) +
            member("blocks_per_row", config.variant == Variant::split ? config.blocks_per_row : 1) +
            member("load", source_name(config.load)) + member("load_again", source_name(config.load_again)) +
            member("store", source_name(config.store)) + "};\n";
  }
  return text + "\nstatic_assert(sizeof(tunesmith::RowParams) == " + std::to_string(sizeof(RowParams)) +
         ", \"the host fills the parameters by this layout\");\n";
}

/// Returns the statement that delays a block: by a constant, or in proportion to the columns of a launch.
std::string stagger(const TypedConfig& config, const Shape& shape, const std::string& params) {
  if (config.stagger_bytes_per_ns == 0) return "";
  std::string delay = std::to_string(stagger_ns(config, shape));
  if (config.capacity != 0)
    delay = "static_cast<int>(tunesmith::int64{" + delay + "} * params." + (params == "RowParams" ? "" : "row.") +
            "cols / " + std::to_string(shape.cols) + ")";
  return "  tunesmith::stagger_start<" + std::to_string(config.min_blocks) + ">(" + delay + ");\n";
}

std::string kernel(const TypedConfig& config, const std::string& entry, const std::string& params,
                   const std::string& function, const std::string& arguments, const StagedRowsOf& staged) {
  const int threads = config.threads + (config.variant == Variant::pipeline ? pipeline_extra_threads : 0);
  const std::string call = "tunesmith::" + function + "<" + arguments + ">";
  return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", " +
         std::to_string(config.min_blocks) + ")\n" + entry + "(const __grid_constant__ tunesmith::" + params +
         " params) {\n" + stagger(config, staged.shape, params) +
         (staged.shape.staged_rows > 0 ? staged_kernel(config, staged, params, call) : "  " + call + "(params);\n") + "}\n";
}

std::string min_arch(const TypedConfig& config, const Shape& shape) {
  if (config.variant == Variant::pipeline) return "sm_90a";
  if (config.variant == Variant::cluster || config.prefetch_blocks > 0 ||
      (config.variant == Variant::persistent && config.blocks_per_row > 1))
    return "sm_90";
  if (is_eviction(config.load) || is_eviction(config.load_again) || is_eviction(config.store)) return "sm_80";
  return config.smem_bytes(shape) > 0 ? "sm_80" : "sm_75";
}

std::vector<std::pair<std::string, std::string>> specialized_for(const Shape& shape) {
  const Options& options = shape.options;
  const bool one_width = shape.min_cols == 0 || shape.min_cols == shape.cols;
  const std::string least = one_width ? "" : std::to_string(shape.min_cols) + " to ";
  std::string what = "cols = " + least + std::to_string(shape.cols) + ", reads " +
                     (shape.reads_two() ? "two arrays of " : "") + std::string(name(shape.input));
  if (shape.cost.writes) what += ", writes " + std::string(name(shape.output)) + (shape.in_place ? ", in place" : "");
  if (options.scaled()) what += ", scaled";
  if (options.causal) what += ", causal";
  if (options.valid_cols) what += ", variable row lengths (valid_cols)";
  if (options.mask == Mask::add) what += ", additive mask";
  if (options.mask == Mask::keep) what += ", boolean mask";
  if (options.safe) what += ", fully masked rows give 0";
  const std::string vector = std::to_string(shape.vector());
  const std::string starts = shape.shifted()
                                 ? "at any element, with the same offset from a multiple of " + vector + " in all arrays"
                                 : "at multiples of " + vector + " elements";
  return {{"specialized for", what}, {"rows", "any number, starting " + starts}};
}

void describe(const TypedConfig& config, const Shape& shape, const std::string& steps, SourceParts& parts) {
  const std::string blocks = std::to_string(config.blocks_per_row), threads = std::to_string(config.threads);
  const std::string vectors = std::to_string(config.vectors_per_thread(shape)),
                    in_registers = std::to_string(config.vectors_in_registers(shape)),
                    vector = std::to_string(shape.vector());
  const std::string accesses =
      std::string(shape.reads_two() ? "two reads" : "one read") + (shape.cost.writes ? " and one write" : "");
  const std::string places = in_registers == vectors
                                 ? "in registers"
                                 : in_registers + " of " + vectors + " vectors in registers, the rest in shared memory";
  const std::string resident = accesses + ": each row is resident on chip (" + places + ") while " + steps + " are computed";
  const std::string apart = config.stagger_bytes_per_ns == 0 ? ""
                                                             : std::string("; blocks of a multiprocessor start ") +
                                                                   (config.capacity == 0 ? "" : "up to ") +
                                                                   std::to_string(stagger_ns(config, shape)) + " ns apart";
  const std::string ahead =
      config.prefetch_blocks == 0
          ? ""
          : "; a block brings the rows of the one that starts " + std::to_string(config.prefetch_blocks) +
                (config.prefetch_blocks == 1 ? " block" : " blocks") + " of each multiprocessor later into L2";
  const std::string each = vectors + (vectors == "1" ? " vector of " : " vectors of ") + vector + " elements";
  switch (config.variant) {
    case Variant::warp:
      parts.algorithm = resident;
      if (shape.staged_rows > 0)
        parts.algorithm += "; the " + std::to_string(shape.staged_rows) + " rows of a block pass through shared memory";
      parts.threads = std::to_string(config.lanes) + " lanes per row, " + std::to_string(config.threads / config.lanes) +
                      (config.rounds > 1 ? " rows per block at once; lane" : " rows per block; lane") +
                      " i processes vectors i, i + " + std::to_string(config.lanes) + ", ...: " + each + ahead;
      return;
    case Variant::block:
    case Variant::hybrid:
      parts.algorithm = resident;
      parts.threads = "one block of " + threads + " threads per row; thread i processes vectors i, i + " + threads +
                      ", ...: " + each + apart + ahead;
      return;
    case Variant::cluster:
    case Variant::grid:
      parts.algorithm =
          resident + (config.variant == Variant::cluster
                          ? "; the blocks of a row exchange their partials once, through distributed shared memory"
                          : "; the blocks of a row exchange their partials once, through tagged words in global memory");
      parts.threads = (config.variant == Variant::cluster ? "one cluster of " : "one group of ") + blocks + " blocks of " +
                      threads + " threads per row; thread i of the group processes vectors i, i + " +
                      std::to_string(config.members()) + ", ...: " + each + apart + ahead;
      return;
    case Variant::two_pass:
      parts.algorithm = shape.cost.writes ? "two passes compute " + steps + "; the second reads the row again and writes"
                                          : "one pass computes " + steps + " online";
      parts.threads = "one block of " + threads + " threads iterates over a row, " + std::to_string(config.unroll) +
                      " vectors of " + vector + " elements per thread at a time";
      return;
    case Variant::split:
      parts.algorithm = "two kernels compute " + steps +
                        "; the first writes a partial for each block's slice of a row, the second combines the partials" +
                        (shape.cost.writes ? ", reads the row again and writes" : "");
      parts.threads = blocks + " blocks of " + threads + " threads per row; each iterates over its slice, " +
                      std::to_string(config.unroll) + " vectors of " + vector + " elements per thread at a time";
      return;
    case Variant::pipeline:
      parts.algorithm = "rows stream through a ring of " + std::to_string(config.stages) +
                        " chunks in shared memory, filled by TMA; two passes over a row's chunks compute " + steps +
                        "; the second one writes";
      parts.threads = "persistent clusters of " + blocks + " blocks process one row after another; " +
                      std::to_string(config.threads / 32) +
                      " worker warps per block process each chunk, one warp fills the ring and one combines the partials";
      return;
    case Variant::persistent:
      parts.algorithm = accesses + ": the next rows are copied to shared memory (" + std::to_string(config.stages) +
                        " batches) while " + steps + " are computed for " + std::to_string(config.batch) +
                        (config.batch == 1 ? " row" : " rows together");
      parts.threads = "persistent " + (config.blocks_per_row == 1 ? "blocks of " : "clusters of " + blocks + " blocks of ") +
                      threads + " threads compute one batch after another; thread i processes vectors i, i + " +
                      std::to_string(config.members()) + ", ... of a row: " + each;
      return;
  }
}

std::vector<std::string> templates(const std::string& folder) {
  std::vector<std::string> names = overloads_for_double();
  names.insert(names.end(), {folder, "device/group_of_cluster.cuh", "row/schedules/staged.cuh"});
  return names;
}

std::vector<std::string> overloads(const TypedConfig& config, const Shape& shape) {
  if (shape.staged_rows > 0) return {"row/schedules/staged.cuh"};
  if (config.variant == Variant::cluster) return {"device/group_of_cluster.cuh"};
  return {};
}

SourceParts source_parts(const TypedConfig& config, const Shape& shape, const std::string& entry, const Kernels& kernels,
                         const OwnParams& own) {
  SourceParts parts;
  parts.specialized_for = specialized_for(shape);
  parts.min_arch = min_arch(config, shape);
  describe(config, shape, kernels.steps, parts);
  parts.constants = constants(config, shape, kernels.features, kernels.definitions) + own.assertions();
  const std::string arguments = kernels.types + ", shape, config";
  const auto kernel_of = [&](const char* suffix, const char* function, const std::string& more = {}) {
    return kernel(config, entry + suffix, own.type(), kernels.function + function, arguments + more,
                  {shape, kernels.addresses ? *kernels.addresses : addresses_of(shape, own.type())});
  };
  const char *file = "tiled", *function = "_two_pass";
  std::string more;
  if (config.variant == Variant::persistent) {
    file = "persistent", function = "_persistent", more = ", Group";
  } else if (config.holds_row()) {
    file = "resident", function = "_resident", more = ", Group, Storage" + kernels.resident_and;
  } else if (config.variant == Variant::pipeline) {
    file = "pipeline", function = "_pipeline";
  } else if (config.variant == Variant::split) {
    function = "_split";
    parts.kernels = kernel_of("_sums", "_split_sums") + "\n";
  }
  const auto include = [&](const std::vector<std::string>& names) {
    parts.includes.insert(parts.includes.end(), names.begin(), names.end());
  };
  if (shape.wide()) include(kernels.for_double);
  include(overloads(config, shape));
  include(kernels.overloads);
  include({kernels.files + file + ".cuh"});
  parts.kernel = kernels.function + function;
  parts.kernels += kernel_of("", function, more);
  return parts;
}

}  // namespace tunesmith::row
