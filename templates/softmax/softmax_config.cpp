#include "templates/softmax/softmax_config.h"

#include <algorithm>
#include <bit>

#include "templates/softmax/softmax_op.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace softmax {
namespace {

const std::vector<std::string_view> variant_words{"warp", "block", "hybrid", "online"};
const std::vector<std::string_view> register_words{"float32", "packed"};
const std::vector<std::string_view> load_words{"plain", "no_allocate", "streaming", "evict_first", "evict_last"};
const std::vector<std::string_view> store_words{"plain", "streaming", "evict_first"};

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string word_of(const Fields& fields, std::string_view field, const std::vector<std::string_view>& allowed) {
  const Value* value = fields.find(field);
  const std::string word = value == nullptr ? "" : text(*value);
  if (std::ranges::find(allowed, std::string_view(word)) != allowed.end()) return word;
  throw Error(ErrorCode::invalid_argument, "config ", field, " is ", value == nullptr ? "missing" : "'" + word + "'",
              "; allowed: ", joined(allowed));
}

int integer_of(const Fields& fields, std::string_view field, int least, int most, bool power_of_two) {
  const Value* value = fields.find(field);
  const auto* integer = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  if (integer != nullptr && *integer >= least && *integer <= most &&
      (!power_of_two || std::has_single_bit(static_cast<std::uint64_t>(*integer))))
    return static_cast<int>(*integer);
  throw Error(ErrorCode::invalid_argument, "config ", field, " is ", value == nullptr ? "missing" : "'" + text(*value) + "'",
              "; allowed: ", power_of_two ? "a power of two from " : "", least, " to ", most);
}

bool needs_eviction_policies(const std::string& hint) { return hint == "evict_first" || hint == "evict_last"; }

}  // namespace

std::string_view name(Variant variant) noexcept { return variant_words[static_cast<std::size_t>(variant)]; }

std::vector<std::string_view> fields_of(Variant variant) {
  switch (variant) {
    case Variant::warp: return {"variant", "threads", "lanes", "load", "store"};
    case Variant::block: return {"variant", "threads", "min_blocks", "registers", "load", "store"};
    case Variant::hybrid: return {"variant", "threads", "register_vectors", "min_blocks", "registers", "load", "store"};
    case Variant::online: return {"variant", "threads", "unroll", "load", "load_again", "store"};
  }
  return {};
}

TypedConfig TypedConfig::parse(const Config& config) {
  const Fields& fields = config.fields;
  TypedConfig typed;
  const std::string variant = word_of(fields, "variant", variant_words);
  typed.variant = static_cast<Variant>(std::ranges::find(variant_words, std::string_view(variant)) - variant_words.begin());
  const std::vector<std::string_view> allowed = fields_of(typed.variant);
  for (const auto& [field, value] : fields)
    if (std::ranges::find(allowed, std::string_view(field)) == allowed.end())
      throw Error(ErrorCode::invalid_argument, "config field '", field, "' does not belong to variant ", variant,
                  "; allowed: ", joined(allowed));
  typed.threads = integer_of(fields, "threads", 32, 1024, true);
  if (typed.variant == Variant::warp) typed.lanes = integer_of(fields, "lanes", 1, 32, true);
  if (typed.variant == Variant::hybrid) typed.register_vectors = integer_of(fields, "register_vectors", 1, 64, false);
  if (typed.variant == Variant::block || typed.variant == Variant::hybrid) {
    typed.min_blocks = integer_of(fields, "min_blocks", 1, 32, false);
    typed.registers = word_of(fields, "registers", register_words);
  }
  if (typed.variant == Variant::online) {
    typed.unroll = integer_of(fields, "unroll", 1, 16, true);
    typed.load_again = word_of(fields, "load_again", load_words);
  }
  typed.load = word_of(fields, "load", load_words);
  typed.store = word_of(fields, "store", store_words);
  return typed;
}

Config TypedConfig::to_config() const {
  Config config;
  for (const std::string_view field : fields_of(variant)) {
    if (field == "variant") config.fields.set(field, std::string(name(variant)));
    if (field == "threads") config.fields.set(field, std::int64_t{threads});
    if (field == "lanes") config.fields.set(field, std::int64_t{lanes});
    if (field == "register_vectors") config.fields.set(field, std::int64_t{register_vectors});
    if (field == "min_blocks") config.fields.set(field, std::int64_t{min_blocks});
    if (field == "registers") config.fields.set(field, registers);
    if (field == "unroll") config.fields.set(field, std::int64_t{unroll});
    if (field == "load") config.fields.set(field, load);
    if (field == "load_again") config.fields.set(field, load_again);
    if (field == "store") config.fields.set(field, store);
  }
  return config;
}

std::int64_t TypedConfig::vectors_per_thread(const Shape& shape) const noexcept {
  const std::int64_t threads_per_row = variant == Variant::warp ? lanes : threads;
  return (shape.vectors_per_row() + threads_per_row - 1) / threads_per_row;
}

std::int64_t TypedConfig::smem_bytes(const Shape& shape) const noexcept {
  if (variant != Variant::hybrid) return 0;
  return std::max<std::int64_t>(0, vectors_per_thread(shape) - register_vectors) * threads * shape.vector_bytes();
}

int TypedConfig::registers_needed(const Shape& shape) const noexcept {
  std::int64_t elements = vectors_per_thread(shape) * shape.vector();
  if (variant == Variant::online) elements = std::int64_t{unroll} * shape.vector() * 2;
  if (variant == Variant::hybrid) elements = std::int64_t{register_vectors} * shape.vector();
  const bool halved = registers == "packed" && size_of(shape.input) == 2 && shape.vector() > 1;
  // Addresses, constants of the exponential, one vector in work; the precise one works on a packed vector in two copies.
  const int around = halved && shape.output == DType::f32 ? 52 : 26;
  return static_cast<int>(std::min<std::int64_t>(halved ? elements / 2 : elements, 4096)) + around;
}

std::string why_invalid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (config.threads > device.max_threads_per_block)
    return "threads is " + std::to_string(config.threads) + "; the device allows " +
           std::to_string(device.max_threads_per_block);
  for (const std::string* hint : {&config.load, &config.load_again, &config.store})
    if (needs_eviction_policies(*hint) && device.arch.number() < 80)
      return *hint + " needs sm_80 or later; the device is " + name(device.arch);
  if (shape.in_place && (config.load == "no_allocate" || config.load_again == "no_allocate"))
    return "load no_allocate reads through the read-only path, which in_place=1 rules out";
  if (config.variant == Variant::online) return {};
  if (config.variant == Variant::hybrid) {
    if (device.arch.number() < 80) return "hybrid copies to shared memory asynchronously, which needs sm_80 or later";
    if (shape.vector_bytes() < 4) return "hybrid needs rows of x that are aligned to 4 bytes";
    if (config.vectors_per_thread(shape) <= config.register_vectors)
      return "register_vectors is " + std::to_string(config.register_vectors) + "; a thread has only " +
             std::to_string(config.vectors_per_thread(shape)) + " vectors of this row";
    // A kilobyte of each block's share is the system's, and the partial results of the reductions take up to 256 bytes.
    const std::int64_t available =
        std::min(device.smem_bytes_per_block, device.smem_bytes_per_sm / config.min_blocks - 1024) - 256;
    if (config.smem_bytes(shape) > available)
      return "hybrid with these settings needs " + std::to_string(config.smem_bytes(shape)) +
             " bytes of shared memory for " + std::to_string(shape.cols) + " columns; there are " +
             std::to_string(available) + " for each of " + std::to_string(config.min_blocks) + " blocks";
  }
  const bool bounded = config.variant == Variant::block || config.variant == Variant::hybrid;
  if (bounded && config.min_blocks * config.threads > device.max_threads_per_sm)
    return "min_blocks is " + std::to_string(config.min_blocks) + " of " + std::to_string(config.threads) +
           " threads; a multiprocessor holds " + std::to_string(device.max_threads_per_sm) + " threads";
  const int blocks = bounded ? config.min_blocks : 1;
  const int available = std::min(255, device.registers_per_sm / (config.threads * blocks));
  if (config.registers_needed(shape) > available)
    return std::string(name(config.variant)) + " with these settings needs about " +
           std::to_string(config.registers_needed(shape)) + " registers a thread for " + std::to_string(shape.cols) +
           " columns; there are " + std::to_string(available);
  return {};
}

}  // namespace softmax

std::vector<FieldInfo> SoftmaxOp::config_fields() const {
  using namespace softmax;
  return {
      {"variant", "the kernel: lanes of a warp per row; block per row in registers; registers and shared memory; two passes",
       "", variant_words},
      {"threads", "threads per block, a power of two from 32 to 1024", "", {}},
      {"lanes", "warp: lanes per row, a power of two up to 32", "", {}},
      {"register_vectors", "hybrid: vectors of a thread in registers, the rest in shared memory", "", {}},
      {"min_blocks", "block, hybrid: resident blocks per multiprocessor that bound a thread's registers", "", {}},
      {"registers", "block, hybrid: how the row waits in registers", "", register_words},
      {"unroll", "online: vectors a thread has in flight, a power of two up to 16", "", {}},
      {"load", "cache hint of the loads", "", load_words},
      {"load_again", "online: cache hint of the second pass's loads", "", load_words},
      {"store", "cache hint of the stores", "", store_words},
  };
}

std::string SoftmaxOp::why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const {
  try {
    return softmax::why_invalid(softmax::TypedConfig::parse(config), softmax::Shape(problem), device);
  } catch (const Error& error) {
    return error.what();
  }
}

Config SoftmaxOp::complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const {
  using namespace softmax;
  const Shape shape(problem);
  TypedConfig typed = softmax::default_config(shape, device);
  if (partial.fields.contains("variant")) {
    const std::string word = word_of(partial.fields, "variant", variant_words);
    const auto variant =
        static_cast<Variant>(std::ranges::find(variant_words, std::string_view(word)) - variant_words.begin());
    if (variant != typed.variant) typed = softmax::default_config(variant, shape, device);
  }
  Config config = typed.to_config();
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  typed = TypedConfig::parse(config);  // names unknown fields and values
  // A pinned block size alone must not fail on the register bound that another block size was given.
  if ((typed.variant == Variant::block || typed.variant == Variant::hybrid) && !partial.fields.contains("min_blocks"))
    while (typed.min_blocks > 1 && !softmax::why_invalid(typed, shape, device).empty()) --typed.min_blocks;
  if (const std::string reason = softmax::why_invalid(typed, shape, device); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return typed.to_config();
}

}  // namespace tunesmith
