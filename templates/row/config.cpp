#include "templates/row/config.h"

#include <algorithm>

#include "templates/row/schedules/pipeline.h"

namespace tunesmith::row {

void describe(const TypedConfig& c, Description& d) {
  const auto with = [&](std::initializer_list<Variant> variants, std::string_view text) {
    return Condition{std::ranges::find(variants, c.variant) != variants.end(), text};
  };
  using enum Variant;
  const bool by_powers = c.variant == warp || c.variant == pipeline;
  d.field("variant", c.variant,
          {.meaning =
               "who shares a row and where it waits: lanes of a warp; a block (registers); a block (registers and "
               "shared memory); a cluster; blocks of a cooperative grid; two passes by one block; two passes by several "
               "blocks; clusters that stay, rows streaming through their shared memory; persistent blocks or clusters that "
               "load the next rows to shared memory",
           .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block; warp, pipeline: a power of two; pipeline adds 64 threads",
           .range = {32, 1024},
           .step = by_powers ? 1 : 32,
           .power_of_two = by_powers,
           .required = true});
  d.field("lanes", c.lanes,
          {.meaning = "lanes per row",
           .range = {1, 32},
           .power_of_two = true,
           .required = true,
           .only_with = with({warp}, "variant=warp")});
  d.field("unroll", c.unroll,
          {.meaning = "vectors that a thread has in flight",
           .range = {1, 16},
           .power_of_two = true,
           .required = true,
           .only_with = with({two_pass, split}, "variant=two_pass or variant=split")});
  d.field(
      "blocks_per_row", c.blocks_per_row,
      {.meaning = "blocks that share a row; cluster: 2 to 16; grid, split: 2 to 1024; persistent: up to 16; pipeline: a "
                  "power of two up to 16",
       .range = c.variant == pipeline || c.variant == persistent ? Range(1, 16) : Range(2, c.variant == cluster ? 16 : 1024),
       .power_of_two = c.variant == pipeline,
       .required = true,
       .only_with =
           with({cluster, grid, split, pipeline, persistent}, "variant=cluster, grid, split, pipeline or persistent")});
  d.field("register_vectors", c.register_vectors,
          {.meaning = "vectors of a thread in registers, the rest in shared memory",
           .range = {0, 64},
           .required = true,
           .only_with = with({hybrid, cluster, grid}, "variant=hybrid, cluster or grid")});
  const Condition with_pipeline = with({pipeline}, "variant=pipeline");
  d.field("stages", c.stages,
          {.meaning = "pipeline: chunks of a row that a block's shared memory holds; persistent: batches of rows",
           .range = {2, 32},
           .required = true,
           .only_with = with({pipeline, persistent}, "variant=pipeline or persistent")});
  const Condition with_persistent = with({persistent}, "variant=persistent");
  d.field("batch", c.batch,
          {.meaning = "rows that are reduced together",
           .range = {1, 8},
           .power_of_two = true,
           .required = true,
           .only_with = with_persistent});
  d.field(
      "keep_columns", c.keep_columns,
      {.meaning = "1: arrays [col] stay in shared memory", .range = {0, 1}, .required = true, .only_with = with_persistent});
  d.field("chunk_bytes", c.chunk_bytes,
          {.meaning = "bytes of a chunk at most",
           .range = {4096, 32768},
           .step = 1024,
           .required = true,
           .only_with = with_pipeline});
  d.field("ahead", c.ahead,
          {.meaning = "rows whose first pass is done before a row's second",
           .range = {0, 1},
           .required = true,
           .only_with = with_pipeline});
  FieldFacts min_blocks{.meaning = "resident blocks per multiprocessor that bound a thread's registers", .range = {1, 32}};
  if (c.holds_row() && c.variant != warp) {
    min_blocks.required = true;
    d.field("min_blocks", c.min_blocks, min_blocks);
  } else {
    d.option("min_blocks", c.min_blocks, min_blocks);
  }
  d.field("blocks_per_sm", c.blocks_per_sm,
          {.meaning = "blocks in the grid per multiprocessor; 0: one per row",
           .range = {0, 32},
           .required = true,
           .only_with = with({two_pass}, "variant=two_pass")});
  d.field("registers", c.registers,
          {.meaning = "how the row waits in registers",
           .required = true,
           .only_with = with({block, hybrid, cluster, grid}, "variant=block, hybrid, cluster or grid")});
  d.option("access", c.access,
           {.meaning = "where rows start between two vectors: shifted to whole vectors, to pairs, or element by element; "
                       "staged (warp): through shared memory, to which the rows of a block are copied as vectors",
            .only_with = with({warp, block}, "variant=warp or variant=block")});
  d.field("rounds", c.rounds,
          {.meaning = "rows that the same lanes take one after another",
           .range = {1, 64},
           .required = true,
           .only_with = Condition{c.variant == warp && c.access == Access::staged, "access=staged"}});
  d.field("load", c.load, {.meaning = "cache hint of the loads", .required = true});
  d.field("load_again", c.load_again,
          {.meaning = "cache hint of the second pass's loads",
           .required = true,
           .only_with = with({two_pass, split}, "variant=two_pass or variant=split")});
  d.field("store", c.store, {.meaning = "cache hint of the stores", .required = true});
  d.option("capacity", c.capacity,
           {.meaning = "columns that the kernel has room for: it runs every width of a bucket; 0: the problem's "
                       "columns are compiled in",
            .range = {0, std::int64_t{1} << 31},
            .only_with = with({warp, block, hybrid, cluster, grid, two_pass, split, persistent}, "a variant but pipeline")});
  d.option(
      "stagger_bytes_per_ns", c.stagger_bytes_per_ns,
      {.meaning = "blocks of a multiprocessor start one after another, each when the one before it would have loaded its "
                  "part of a row at this rate, so that some load while others store; 0: all at once",
       .range = {0, 1024},
       .only_with = with({block, hybrid, cluster, grid}, "variant=block, hybrid, cluster or grid")});
  d.option(
      "prefetch_blocks", c.prefetch_blocks,
      {.meaning = "a block brings the rows of the one that starts this many blocks of each multiprocessor later into L2 "
                  "(sm_90 and later); 0: none",
       .range = {0, 32},
       .only_with = with({warp, block, hybrid, cluster}, "variant=warp, block, hybrid or cluster")});
  d.option("sized_by_row", c.sized_by_row,
           {.meaning = "1: a launch has shared memory for its own columns only, and min_blocks blocks need to fit for the "
                       "narrowest row of the bucket (grid: the widest); 0: shared memory for the capacity",
            .range = {0, 1},
            .only_with = Condition{c.capacity != 0 && (c.variant == hybrid || c.variant == cluster || c.variant == grid),
                                   "variant=hybrid, cluster or grid, and a capacity"}});
}

std::vector<FieldInfo> config_field_infos() { return config_infos<TypedConfig>(); }

TypedConfig TypedConfig::parse(const Config& config) { return read_config<TypedConfig>(config.fields); }
Config TypedConfig::to_config() const { return {config_fields(*this)}; }

std::int64_t TypedConfig::members() const noexcept {
  switch (variant) {
    case Variant::warp: return lanes;
    case Variant::cluster:
    case Variant::grid:
    case Variant::pipeline:
    case Variant::persistent:
    case Variant::split: return std::int64_t{threads} * blocks_per_row;
    default: return threads;
  }
}

std::int64_t TypedConfig::vectors_per_thread(const Shape& shape) const noexcept {
  return (shape.vectors_per_row() + members() - 1) / members();
}

std::int64_t TypedConfig::vectors_in_registers(const Shape& shape) const noexcept {
  const std::int64_t vectors = vectors_per_thread(shape);
  if (variant == Variant::persistent) return 0;
  return has_shared_vectors() ? std::min<std::int64_t>(vectors, register_vectors) : vectors;
}

std::int64_t TypedConfig::smem_bytes(const Shape& shape) const noexcept {
  if (shape.staged_rows > 0) return staged_bytes(shape);
  if (variant == Variant::pipeline) return pipeline_geometry(*this, shape).smem_bytes;
  if (variant == Variant::persistent)
    return vectors_per_thread(shape) * threads * shape.vector() *
           (std::int64_t{stages} * batch * shape.resident_element_bytes() + keep_columns * shape.cost.column_bytes);
  if (!has_shared_vectors()) return 0;
  return (vectors_per_thread(shape) - vectors_in_registers(shape)) * threads * shape.vector() *
         shape.resident_element_bytes();
}

std::int64_t TypedConfig::smem_bytes(const Shape& shape, std::int64_t width) const {
  if (shape.staged_rows > 0) return staged_arrays(shape).bytes_of(shape.staged_rows * width);
  if (sized_by_row == 0) return smem_bytes(shape);
  const std::int64_t in_row = (shape.vectors_per_row(width) + members() - 1) / members();
  return std::max<std::int64_t>(in_row - vectors_in_registers(shape), 0) * threads * shape.vector() *
         shape.resident_element_bytes();
}

int TypedConfig::registers_needed(const Shape& shape) const noexcept {
  const bool halved =
      registers == Registers::packed && shape.resident_element_bytes() == 2 * shape.inputs && shape.vector() > 1;
  if (reads_twice() && !shape.cost.writes) {  // one tile and a few numbers: no resident row, no second pass
    const std::int64_t words = std::int64_t{unroll} * shape.vector() * size_of(shape.input) / 4;
    return static_cast<int>(words) + 22 + shape.cost.more_registers;
  }
  if (variant == Variant::pipeline) {  // a warp's slice of a chunk in packed form, and two vectors of it as float32
    const PipelineGeometry geometry = pipeline_geometry(*this, shape);
    const std::int64_t words = geometry.vectors_of_a_lane * shape.vector() * size_of(shape.input) * shape.inputs / 4;
    return static_cast<int>(std::min<std::int64_t>(words, 4096)) + 32 + shape.cost.more_registers;
  }
  std::int64_t elements = 0;
  if (reads_twice())
    elements = std::int64_t{unroll} * shape.vector() * 2 * shape.inputs;
  else
    elements = vectors_in_registers(shape) * shape.vector() * shape.inputs;
  elements *= shape.words_of_value();
  // Addresses, constants of the exponential, one vector as float32; precise arithmetic has two copies of a packed vector.
  int around = halved && shape.output == DType::f32 ? 52 : 26;
  if (!shape.cost.writes && variant == Variant::block) around = 14;
  if (shape.wide()) around += 20;  // the exponential of double
  around += shape.cost.more_registers;
  if (shape.reads_two()) around += 8;
  if (shape.reads_two() && shape.vector() <= 2 && registers == Registers::float32) around = 14;  // few elements under way
  if (shape.cost.logarithm) around += 6;
  if (shape.is_masked()) around += 14;
  if (shape.shifted() && shape.vector() <= 2) around += 8;  // many vectors may cross the end of the row
  if (halved) elements /= 2;
  if (variant == Variant::persistent) around += batch * (2 * shape.cost.exchanged_floats + 4);
  if (holds_row()) elements += vectors_per_thread(shape) * shape.vector() * shape.cost.column_sums + 2 * shape.cost.totals;
  if (variant == Variant::warp && shape.cost.column_sums > 0) {
    // Addresses and predicates of more accesses are kept for the next rows.
    const std::int64_t few = shape.vector() > 1 ? 2 : 8, more = std::max(vectors_per_thread(shape) - few, std::int64_t{0});
    around += 4 * shape.cost.column_sums * static_cast<int>(std::min<std::int64_t>(more, 16));
  }
  return static_cast<int>(std::min<std::int64_t>(elements, 4096)) + around;
}

}  // namespace tunesmith::row
