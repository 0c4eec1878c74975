#include "templates/cross_entropy/op.h"

#include <algorithm>
#include <bit>

#include "templates/cross_entropy/config.h"
#include "templates/row/config.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace cross_entropy;

namespace {

/// The kernel that combines shards has no choices: a thread for a row, in blocks of this.
const Config combine_config{{{"variant", std::string("rows")}, {"threads", std::int64_t{128}}}};

}  // namespace

std::string_view CrossEntropyOp::summary() const noexcept {
  switch (kind_) {
    case Kind::loss:
      return "loss[r] = lse(logits[r,:]) - logits[r,targets[r]], and its gradient in the same pass when asked for";
    case Kind::backward: return "dlogits[r,:] = dloss[r] * (exp(logits[r,:] - lse[r]) - [: is targets[r]])";
    case Kind::shard: return "parts[r,:] of a loss whose vocabulary is spread over devices";
    case Kind::combine: return "loss[r] from parts[:,r,:] of all shards of the vocabulary";
  }
  return {};
}

std::vector<FieldInfo> CrossEntropyOp::config_fields() const {
  if (is_row_kernel()) return row::config_field_infos();
  if (kind_ == Kind::backward) return tile_config_fields();
  return {{"variant", "the kernel; there is one", "", {"rows"}}, {"threads", "threads per block: 128", "", {}}};
}

Problem CrossEntropyOp::normal(const Problem& problem) const { return to_problem(settings_of(problem)); }

std::vector<ArrayInfo> CrossEntropyOp::arrays(const Problem& problem) const { return arrays_of(settings_of(problem)); }

KeyParts CrossEntropyOp::key(const Problem& problem) const {
  const Settings settings = settings_of(problem);
  KeyParts parts;
  parts.semantics = settings.semantics();
  parts.n_cols = kind_ == Kind::combine ? settings.shards : settings.shape.cols;
  // From 65536 rows on every GPU is full whatever the configuration.
  constexpr std::uint64_t full = 65536;
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min<std::uint64_t>(settings.shape.rows, full)));
  return parts;
}

Cost CrossEntropyOp::cost(const Problem& problem) const {
  const Settings settings = settings_of(problem);
  Cost cost;
  for (const ArrayInfo& array : arrays_of(settings))
    (array.input ? cost.bytes_read : cost.bytes_written) +=
        static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
  const double elements = static_cast<double>(settings.shape.rows) * static_cast<double>(settings.shape.cols);
  // Comparison, subtraction, exponential, addition; for the gradient a multiplication, and without the sums before it a
  // subtraction and an exponential too.
  cost.flops = elements * (kind_ == Kind::backward ? 3 : (settings.has_gradient() ? 5 : 4));
  return cost;
}

Config CrossEntropyOp::default_config(const Problem& problem, const DeviceInfo& device) const {
  const row::Shape shape = settings_of(problem).shape;
  if (is_row_kernel()) return row::default_config(shape, device).to_config();
  return kind_ == Kind::backward ? default_tile_config(shape, device).to_config() : combine_config;
}

Config CrossEntropyOp::complete_config(const Problem& problem, const DeviceInfo& device, const Config& partial) const {
  const row::Shape shape = settings_of(problem).shape;
  if (is_row_kernel()) return row::complete_config(partial, shape, device);
  if (kind_ == Kind::backward) return complete_tile_config(partial, shape, device);
  Config config = combine_config;
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  if (const std::string reason = why_invalid(problem, device, config); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", config.text(), "' cannot be used: ", reason);
  return config;
}

std::vector<Config> CrossEntropyOp::search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const {
  const row::Shape shape = settings_of(problem).shape;
  if (is_row_kernel()) return row::search_space(shape, device, effort);
  return kind_ == Kind::backward ? tile_search_space(shape, device, effort) : std::vector<Config>{combine_config};
}

std::string CrossEntropyOp::why_invalid(const Problem& problem, const DeviceInfo& device, const Config& config) const {
  try {
    const row::Shape shape = settings_of(problem).shape;
    if (is_row_kernel()) return row::why_invalid(row::TypedConfig::parse(config), shape, device);
    if (kind_ == Kind::backward) return cross_entropy::why_invalid(TileConfig::parse(config), shape, device);
    return config == combine_config ? "" : "the one configuration there is: " + combine_config.text();
  } catch (const Error& error) {
    return error.what();
  }
}

Problem CrossEntropyOp::verification_problem(const Problem& problem) const {
  Settings settings = settings_of(problem);
  // About a million elements, but enough rows for every awkward one, and a number that no block size divides.
  settings.shape.rows = std::clamp<std::int64_t>((std::int64_t{1} << 20) / settings.shape.cols, 32, 512) + 1;
  return to_problem(settings);
}

void CrossEntropyOp::fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                                 std::span<const HostArray> arrays) const {
  cross_entropy::fill_inputs(settings_of(problem), seed, kind, arrays);
}

CheckResult CrossEntropyOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return cross_entropy::check(settings_of(problem), arrays, max_rows);
}

}  // namespace tunesmith
