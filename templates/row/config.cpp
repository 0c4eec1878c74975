#include "templates/row/config.h"

#include <algorithm>

#include "templates/config_values.h"
#include "templates/row/pipeline.h"
#include "tunesmith/error.h"

namespace tunesmith::row {
namespace {

const Words variant_words{"warp", "block", "hybrid", "cluster", "grid", "online", "split", "pipeline"};
const Words register_words{"float32", "packed"};
const Words access_words{"vectors", "pairs", "elements"};

}  // namespace

std::string_view name(Variant variant) noexcept { return variant_words[static_cast<std::size_t>(variant)]; }

Variant parse_variant(const Fields& fields) {
  const std::string word = word_of(fields, "variant", variant_words);
  return static_cast<Variant>(std::ranges::find(variant_words, std::string_view(word)) - variant_words.begin());
}

Words fields_of(Variant variant) {
  switch (variant) {
    case Variant::warp: return {"variant", "threads", "lanes", "access", "load", "store"};
    case Variant::block: return {"variant", "threads", "min_blocks", "registers", "access", "load", "store"};
    case Variant::hybrid: return {"variant", "threads", "register_vectors", "min_blocks", "registers", "load", "store"};
    case Variant::cluster:
    case Variant::grid:
      return {"variant", "threads", "blocks_per_row", "register_vectors", "min_blocks", "registers", "load", "store"};
    case Variant::online:
      return {"variant", "threads", "unroll", "min_blocks", "blocks_per_sm", "load", "load_again", "store"};
    case Variant::split: return {"variant", "threads", "unroll", "blocks_per_row", "load", "load_again", "store"};
    case Variant::pipeline:
      return {"variant", "threads", "blocks_per_row", "stages", "chunk_bytes", "ahead", "min_blocks", "load", "store"};
  }
  return {};
}

std::vector<FieldInfo> config_field_infos() {
  return {
      {"variant",
       "who shares a row and where it waits: lanes of a warp; a block (registers); a block (registers and shared memory); a "
       "cluster; blocks of a cooperative grid; two passes by one block; two passes by several blocks; clusters that stay, "
       "rows streaming through "
       "their shared memory",
       "", variant_words},
      {"threads",
       "threads per block, a multiple of 32 from 32 to 1024 (warp: a power of two; pipeline: that too, and 64 more beside "
       "them)",
       "",
       {}},
      {"lanes", "warp: lanes per row, a power of two up to 32", "", {}},
      {"blocks_per_row",
       "cluster (2 to 16), grid and split (2 to 1024), pipeline (1 to 16): blocks that share a row",
       "",
       {}},
      {"register_vectors", "hybrid, cluster, grid: vectors of a thread in registers, the rest in shared memory", "", {}},
      {"min_blocks", "resident blocks per multiprocessor that bound a thread's registers", "", {}},
      {"registers", "how the row waits in registers", "", register_words},
      {"unroll", "online, split: vectors a thread has in flight, a power of two up to 16", "", {}},
      {"blocks_per_sm", "online: blocks in the grid per multiprocessor, 0: one per row", "", {}},
      {"stages", "pipeline: chunks of a row that a block's shared memory holds, 2 to 32", "", {}},
      {"chunk_bytes", "pipeline: bytes of a chunk at most, a multiple of 1024 from 4096 to 32768", "", {}},
      {"ahead", "pipeline: rows whose first pass is done before a row's second, 0 or 1", "", {}},
      {"access",
       "warp, block, where rows start between two vectors: shifted to whole vectors (default), to pairs, or element by "
       "element",
       "", access_words},
      {"load", "cache hint of the loads", "", load_words()},
      {"load_again", "online, split: cache hint of the second pass's loads", "", load_words()},
      {"store", "cache hint of the stores", "", store_words()},
  };
}

TypedConfig TypedConfig::parse(const Config& config) {
  const Fields& fields = config.fields;
  TypedConfig typed;
  typed.variant = parse_variant(fields);
  const Words allowed = fields_of(typed.variant);
  check_fields_of_variant(fields, row::name(typed.variant), allowed);
  for (const std::string_view field : allowed) {
    if (field == "threads")
      typed.threads = typed.variant == Variant::warp || typed.variant == Variant::pipeline
                          ? power_of_two_of(fields, field, 32, 1024)
                          : integer_of(fields, field, 32, 1024, 32);
    if (field == "lanes") typed.lanes = power_of_two_of(fields, field, 1, 32);
    if (field == "blocks_per_row")
      typed.blocks_per_row = typed.variant == Variant::pipeline
                                 ? power_of_two_of(fields, field, 1, 16)
                                 : integer_of(fields, field, 2, typed.variant == Variant::cluster ? 16 : 1024);
    if (field == "stages") typed.stages = integer_of(fields, field, 2, 32);
    if (field == "chunk_bytes") typed.chunk_bytes = integer_of(fields, field, 4096, 32768, 1024);
    if (field == "ahead") typed.ahead = integer_of(fields, field, 0, 1);
    if (field == "register_vectors") typed.register_vectors = integer_of(fields, field, 0, 64);
    if (field == "min_blocks" && (typed.holds_row() || fields.contains(field)))
      typed.min_blocks = integer_of(fields, field, 1, 32);
    if (field == "registers") typed.registers = word_of(fields, field, register_words);
    if (field == "unroll") typed.unroll = power_of_two_of(fields, field, 1, 16);
    if (field == "blocks_per_sm") typed.blocks_per_sm = integer_of(fields, field, 0, 32);
    if (field == "access" && fields.contains(field)) typed.access = word_of(fields, field, access_words);
    if (field == "load") typed.load = word_of(fields, field, load_words());
    if (field == "load_again") typed.load_again = word_of(fields, field, load_words());
    if (field == "store") typed.store = word_of(fields, field, store_words());
  }
  return typed;
}

Config TypedConfig::to_config() const {
  Config config;
  for (const std::string_view field : fields_of(variant)) {
    if (field == "variant") config.fields.set(field, std::string(row::name(variant)));
    if (field == "threads") config.fields.set(field, std::int64_t{threads});
    if (field == "lanes") config.fields.set(field, std::int64_t{lanes});
    if (field == "blocks_per_row") config.fields.set(field, std::int64_t{blocks_per_row});
    if (field == "register_vectors") config.fields.set(field, std::int64_t{register_vectors});
    if (field == "min_blocks" && (holds_row() || min_blocks > 1)) config.fields.set(field, std::int64_t{min_blocks});
    if (field == "registers") config.fields.set(field, registers);
    if (field == "unroll") config.fields.set(field, std::int64_t{unroll});
    if (field == "blocks_per_sm") config.fields.set(field, std::int64_t{blocks_per_sm});
    if (field == "stages") config.fields.set(field, std::int64_t{stages});
    if (field == "chunk_bytes") config.fields.set(field, std::int64_t{chunk_bytes});
    if (field == "ahead") config.fields.set(field, std::int64_t{ahead});
    if (field == "access" && access != access_words.front()) config.fields.set(field, access);
    if (field == "load") config.fields.set(field, load);
    if (field == "load_again") config.fields.set(field, load_again);
    if (field == "store") config.fields.set(field, store);
  }
  return config;
}

std::int64_t TypedConfig::members() const noexcept {
  switch (variant) {
    case Variant::warp: return lanes;
    case Variant::cluster:
    case Variant::grid:
    case Variant::pipeline:
    case Variant::split: return std::int64_t{threads} * blocks_per_row;
    default: return threads;
  }
}

std::int64_t TypedConfig::vectors_per_thread(const Shape& shape) const noexcept {
  return (shape.vectors_per_row() + members() - 1) / members();
}

std::int64_t TypedConfig::vectors_in_registers(const Shape& shape) const noexcept {
  const std::int64_t vectors = vectors_per_thread(shape);
  return has_shared_vectors() ? std::min<std::int64_t>(vectors, register_vectors) : vectors;
}

std::int64_t TypedConfig::smem_bytes(const Shape& shape) const noexcept {
  if (variant == Variant::pipeline) return pipeline_geometry(*this, shape).smem_bytes;
  if (!has_shared_vectors()) return 0;
  return (vectors_per_thread(shape) - vectors_in_registers(shape)) * threads * shape.vector() * shape.waiting_bytes();
}

int TypedConfig::registers_needed(const Shape& shape) const noexcept {
  const bool halved = registers == "packed" && shape.waiting_bytes() == 2 * shape.inputs && shape.vector() > 1;
  if (reads_twice() && !shape.writes) {  // one tile, and a few numbers: no row, no second pass
    const std::int64_t words = std::int64_t{unroll} * shape.vector() * size_of(shape.input) / 4;
    return static_cast<int>(words) + 22 + shape.more_registers;
  }
  if (variant == Variant::pipeline) {  // a warp's part of a chunk as it lies in memory, two vectors of it in work
    const PipelineGeometry geometry = pipeline_geometry(*this, shape);
    const std::int64_t words = geometry.vectors_of_a_lane * shape.vector() * size_of(shape.input) / 4;
    return static_cast<int>(std::min<std::int64_t>(words, 4096)) + 32 + shape.more_registers;
  }
  std::int64_t elements = 0;
  if (reads_twice())
    elements = std::int64_t{unroll} * shape.vector() * 2 * shape.inputs;
  else
    elements = vectors_in_registers(shape) * shape.vector() * shape.inputs;
  // Addresses, constants of the exponential, one vector in work; the precise one works on a packed vector in two copies.
  int around = halved && shape.output == DType::f32 ? 52 : 26;
  if (!shape.writes && variant == Variant::block) around = 14;
  around += shape.more_registers;
  if (shape.backward()) around += 8;
  if (shape.logarithm) around += 6;
  if (shape.options.mask != Mask::none) around += 14;
  if (shape.shifted() && shape.vector() <= 2) around += 8;  // many places where a vector may stick out of the row
  return static_cast<int>(std::min<std::int64_t>(halved ? elements / 2 : elements, 4096)) + around;
}

}  // namespace tunesmith::row
