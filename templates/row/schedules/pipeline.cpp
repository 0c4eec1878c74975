// Streamed rows: geometry, validity, and configurations to try.
//
// Measured on an H200 over 128256 and 262144 columns in place: pieces of about 64 KB with ahead = 1 and chunks of 16 KB are
// fastest, for 16-bit elements with 16 warps (8 are 14% slower: arithmetic is the bottleneck), for float32 with 8 or 16;
// pieces of 128 KB with ahead = 0 are 1% slower. Chunks of 8 KB take up to 27% more time. evict_last loads gain 4%. Over
// 151936 columns, pieces of 74 KB take 0.79 of the time of pieces of 37 KB.

#include "templates/row/schedules/pipeline.h"

#include <algorithm>
#include <bit>

#include "templates/eviction.h"
#include "templates/folded_grid.h"
namespace tunesmith::row {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

constexpr std::int64_t ring_bytes = 208 << 10;  ///< of one block on a multiprocessor

/// Results are kept for 8 rows, including 2 in progress.
std::int64_t max_stages(const PipelineGeometry& geometry) { return 6 * geometry.chunks - 1; }

struct Choice {
  std::int64_t max_piece;
  int threads, chunk_bytes, ahead, min_blocks;  // pieces and chunks of all inputs together
};

/// Returns the fewest blocks with pieces of at most this size, and as many stages as fit and are allowed.
TypedConfig chosen(const Choice& choice, const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::pipeline;
  config.threads = choice.threads;
  config.chunk_bytes = choice.chunk_bytes / shape.inputs;
  config.ahead = choice.ahead;
  config.min_blocks = choice.min_blocks;
  const std::int64_t row_bytes = shape.cols * size_of(shape.input) * shape.inputs;
  const std::int64_t blocks = (row_bytes + choice.max_piece - 1) / choice.max_piece;
  config.blocks_per_row =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(blocks, 1, 16))));
  const PipelineGeometry geometry = pipeline_geometry(config, shape);
  config.stages = static_cast<int>(
      std::min({ring_bytes / choice.min_blocks / (geometry.chunk * shape.inputs), max_stages(geometry), std::int64_t{32}}));
  if (suits_evict_last(shape.traffic_bytes(), device)) config.load = LoadHint::evict_last;
  return config;
}

std::vector<Choice> choices(const Shape& shape, bool full) {
  constexpr std::int64_t half = 80 << 10, whole = 128 << 10, between = 96 << 10;
  constexpr int small = 8192, large = 16384;
  std::vector<Choice> list;
  if (size_of(shape.input) == 2)
    list = {{half, 512, large, 1, 1}, {half, 512, small, 1, 1}, {half / 2, 512, large, 1, 1}};
  else
    list = {{half, 256, large, 1, 1}, {half, 512, small, 1, 1}, {whole, 256, large, 0, 1}, {whole, 512, small, 0, 1}};
  if (!full) return list;
  const Choice more[] = {{half, 256, large, 1, 1},     {half / 2, 512, small, 1, 2}, {half / 2, 256, large, 1, 2},
                         {half / 2, 256, small, 1, 2}, {whole, 512, large, 0, 1},    {between, 512, small, 1, 1},
                         {half / 2, 512, small, 1, 1}, {half, 512, large, 1, 1},     {whole, 512, small, 0, 1},
                         {half, 256, small, 0, 2}};
  list.insert(list.end(), std::begin(more), std::end(more));
  return list;
}

}  // namespace

PipelineGeometry pipeline_geometry(const TypedConfig& config, const Shape& shape) noexcept {
  const std::int64_t vector_bytes = std::int64_t{shape.vector()} * size_of(shape.input), warps = config.threads / 32;
  PipelineGeometry geometry;
  geometry.piece =
      rounded_up((shape.cols * size_of(shape.input) + config.blocks_per_row - 1) / config.blocks_per_row, line_bytes);
  geometry.chunks = (geometry.piece + config.chunk_bytes - 1) / config.chunk_bytes;
  geometry.chunk = rounded_up((geometry.piece + geometry.chunks - 1) / geometry.chunks, line_bytes);
  const std::int64_t part = rounded_up((geometry.chunk / vector_bytes + warps - 1) / warps, 8);
  geometry.vectors_of_a_lane = (part + 31) / 32;
  geometry.smem_bytes = config.stages * geometry.chunk * shape.inputs + pipeline_control_bytes(config, shape);
  return geometry;
}

std::int64_t pipeline_control_bytes(const TypedConfig& config, const Shape& shape) noexcept {
  constexpr std::int64_t results = 8, info = 48;
  const std::int64_t parts = std::int64_t{shape.cost.streamed_part_bytes} * (config.threads / 32);
  const std::int64_t of_a_result = 3 * 8 + 16 * config.blocks_per_row + 16 + info + parts + 4;
  return rounded_up(16 * config.stages + results * of_a_result + 64, 128);
}

std::string why_not_streamed(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (tunesmith::name(device.arch) != "sm_90a")
    return "pipeline needs sm_90a; the device is " + tunesmith::name(device.arch);
  if (shape.cost.streamed_part_bytes == 0)
    return "pipeline is for operations with kernels of streamed rows that write rows, without masks, causal, valid_cols, "
           "label "
           "smoothing, argmax and num_correct; not for f64";
  const std::int64_t size = size_of(shape.input), row_bytes = shape.cols * size;
  const int widest = static_cast<int>(16 / std::max(size_of(shape.input), size_of(shape.output)));
  const auto copies = [&](const Rows& rows) { return rows.alignment >= 16 && rows.stride * size % 16 == 0; };
  if (shape.shifted() || shape.vector() != widest || row_bytes % 16 != 0 || !copies(shape.in[0]) ||
      (shape.inputs == 2 && !copies(shape.in[1])))
    return "pipeline copies whole rows in units of 16 bytes; these of " + std::to_string(shape.cols) +
           " columns do not begin and end at multiples of that in all arrays";
  if (config.load == LoadHint::no_allocate || config.load == LoadHint::streaming)
    return "load " + std::string(enum_name(config.load)) +
           " has no meaning for pipeline's copies; allowed: plain, evict_first, evict_last";
  constexpr std::int64_t max_rows = std::int64_t{1} << 30;
  if (shape.rows > max_rows) return "pipeline counts rows in 32 bits; rows is " + std::to_string(shape.rows);
  if (config.threads + pipeline_extra_threads > device.max_threads_per_block)
    return "threads is " + std::to_string(config.threads) + ", and pipeline has 64 more; the device allows " +
           std::to_string(device.max_threads_per_block);
  if (const int most = std::min(max_cluster_blocks(device), device.sm_count); config.blocks_per_row > most)
    return "blocks_per_row is " + std::to_string(config.blocks_per_row) + "; the device's clusters have at most " +
           std::to_string(most) + " blocks";
  const PipelineGeometry geometry = pipeline_geometry(config, shape);
  if ((config.blocks_per_row - 1) * geometry.piece >= row_bytes)
    return "blocks_per_row is " + std::to_string(config.blocks_per_row) + "; the last of them would have nothing of " +
           std::to_string(row_bytes) + " bytes";
  const std::int64_t least = geometry.chunks * (1 + config.ahead) + 1, most = max_stages(geometry);
  if (config.stages < least || config.stages > most)
    return "stages is " + std::to_string(config.stages) + "; with " + std::to_string(geometry.chunks) + " chunks of " +
           std::to_string(geometry.chunk * shape.inputs) + " bytes in a block's part of a row there must be " +
           std::to_string(least) + " to " + std::to_string(most);
  const std::int64_t available = std::min(device.smem_bytes_per_block, device.smem_bytes_per_sm / config.min_blocks - 1024);
  if (geometry.smem_bytes > available)
    return "pipeline with these settings needs " + std::to_string(geometry.smem_bytes) +
           " bytes of shared memory; there are " + std::to_string(available) + " for each of " +
           std::to_string(config.min_blocks) + " blocks";
  return {};
}

bool may_stream(const Shape& shape, const DeviceInfo& device) noexcept {
  constexpr std::int64_t min_bytes = 128 << 10;
  if (device.kind == DeviceInfo::Kind::host) return false;  // emulated only where a configuration names it
  return shape.cost.streamed_part_bytes > 0 && shape.rows >= 2 * std::int64_t{device.sm_count} &&
         shape.cols * size_of(shape.input) * shape.inputs >= min_bytes;
}

bool worth_streaming(const Shape& shape, const DeviceInfo& device) noexcept {
  return may_stream(shape, device) && shape.cols >= shape.cost.min_streamed_cols;
}

std::vector<TypedConfig> pipelines_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  std::vector<TypedConfig> list;
  for (const Choice& choice : choices(shape, full))
    if (const TypedConfig config = chosen(choice, shape, device); why_invalid(config, shape, device).empty())
      list.push_back(config);
  return list;
}

TypedConfig pipeline_default(const Shape& shape, const DeviceInfo& device) {
  const std::vector<TypedConfig> list = pipelines_to_try(shape, device, true);
  return list.empty() ? chosen(choices(shape, false).front(), shape, device) : list.front();
}

}  // namespace tunesmith::row
