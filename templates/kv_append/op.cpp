#include "templates/kv_append/op.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "templates/array_places.h"
#include "templates/folded_grid.h"
#include "templates/kv_append/params.cuh"
#include "templates/kv_append/vector.h"
#include "templates/rows_apart.h"
#include "templates/source_text.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace kv_append;

void describe(const KvAppendConfig& c, Description& d) {
  d.field("variant", c.variant, {.meaning = "the kernel; there is one", .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block", .range = {32, 1024}, .power_of_two = true, .required = true});
}

KvAppendConfig KvAppendConfig::parse(const Config& config) { return read_config<KvAppendConfig>(config.fields); }
Config KvAppendConfig::to_config() const { return {config_fields(*this)}; }
std::vector<FieldInfo> config_fields_of(const KvAppendProblem&) { return config_infos<KvAppendConfig>(); }

void complete(KvAppendProblem& p) {
  const auto fail = [](const auto&... parts) { throw Error(ErrorCode::invalid_argument, parts...); };
  if (p.cached() != p.dtype && p.cached() != DType::e4m3)
    fail("cache_dtype is ", name(p.cached()), ", but dtype is ", name(p.dtype), "; allowed: ", name(p.dtype), " and e4m3");
  if (p.rope != Rope::none) {
    if (!p.max_positions) fail("max_positions is missing: rope=", enum_name(p.rope), " needs the number of rows of cos_sin");
    if (p.rotary_dim.value_or(p.head_dim) > p.head_dim)
      fail("rotary_dim is ", *p.rotary_dim, "; allowed: even numbers up to head_dim, ", p.head_dim);
    if (p.cos_sin_dtype != DType::f32 && p.cos_sin_dtype != p.dtype)
      fail("cos_sin_dtype is ", name(p.cos_sin_dtype), ", but dtype is ", name(p.dtype), "; allowed: f32 and ",
           name(p.dtype));
  } else if (p.heads > 0 && !p.qk_norm) {
    fail("heads is ", p.heads, ", but without rope and qk_norm nothing is computed from q; allowed: 0");
  }
  if (p.qk_norm && p.weight_type() != DType::f32 && p.weight_type() != p.dtype)
    fail("weight_dtype is ", name(p.weight_type()), ", but dtype is ", name(p.dtype), "; allowed: f32 and ", name(p.dtype));
  if (p.in_place && p.q_stride != p.q_out_stride)
    fail("in_place is 1, but q_stride is ", p.q_stride.value_or(0), " and q_out_stride ", p.q_out_stride.value_or(0),
         "; they must be equal");
  const std::int64_t width_v = p.head_dim_v.value_or(p.head_dim);
  // Kernels are specialized for the alignment of strides, but not for these counts: a stride that no two elements are apart
  // by is that of a contiguous array.
  if (p.tokens <= 1) {
    p.k_stride = p.kv_heads * p.head_dim, p.v_stride = p.kv_heads * width_v;
    p.q_stride = p.q_out_stride = p.heads * p.head_dim;
  }
  if (p.pages <= 1) {
    p.k_page_stride = p.page_size * p.kv_heads * p.head_dim, p.v_page_stride = p.page_size * p.kv_heads * width_v;
  }
  if (p.kv_heads == 1) {
    const bool bshd = p.layout == AttentionLayout::bshd;
    p.k_head_stride = bshd ? p.head_dim : p.page_size * p.head_dim;
    p.v_head_stride = bshd ? width_v : p.page_size * width_v;
  }
  check_rows_apart("k_cache", p.head_dim,
                   {{*p.k_page_stride, p.pages}, {*p.k_slot_stride, p.page_size}, {*p.k_head_stride, p.kv_heads}});
  check_rows_apart("v_cache", width_v,
                   {{*p.v_page_stride, p.pages}, {*p.v_slot_stride, p.page_size}, {*p.v_head_stride, p.kv_heads}});
  if (p.heads > 0) check_rows_apart("q_out", p.heads * p.head_dim, {{*p.q_out_stride, p.tokens}});
}

KeyParts ParsedKvAppend::key() const {
  const KvAppendProblem& p = typed_;
  KeyParts parts;
  parts.problem_class = std::string(tunesmith::name(p.dtype)) + "," + std::string(tunesmith::name(p.cached())) +
                        ",dv=" + std::to_string(p.head_dim_v.value_or(p.head_dim)) + ",page=" + std::to_string(p.page_size) +
                        ",vector=" + std::to_string(vector_of(p));
  if (p.heads > 0) parts.problem_class += ",q";
  if (p.rope != Rope::none)
    parts.problem_class += ",rope=" + std::string(enum_name(p.rope)) + std::to_string(p.rotary_dim.value_or(p.head_dim)) +
                           std::string(tunesmith::name(p.cos_sin_dtype));
  if (p.qk_norm) parts.problem_class += ",norm=" + std::string(tunesmith::name(p.weight_type()));
  if (p.scales != KvScales::none) parts.problem_class += ",scales=" + std::string(enum_name(p.scales));
  parts.n_cols = p.head_dim;
  // From here on every GPU is full.
  constexpr std::uint64_t full = 1 << 20;
  const auto rows = static_cast<std::uint64_t>(std::max<std::int64_t>(rows_of(p), 1));
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min(rows, full)));
  return parts;
}

Cost ParsedKvAppend::cost() const {
  const KvAppendProblem& p = typed_;
  const auto tokens = static_cast<double>(p.tokens);
  const auto width = static_cast<double>(p.head_dim), width_v = static_cast<double>(p.head_dim_v.value_or(p.head_dim));
  const double q = tokens * static_cast<double>(p.heads) * width * static_cast<double>(size_of(p.dtype));
  const double kv = tokens * static_cast<double>(p.kv_heads) * (width + width_v);
  Cost cost;
  cost.bytes_read = q + kv * static_cast<double>(size_of(p.dtype)) + tokens * 8;
  cost.bytes_written = q + kv * static_cast<double>(size_of(p.cached()));
  return cost;
}

std::string ParsedKvAppend::why_invalid_of(const DeviceInfo& device, const KvAppendConfig& config) const {
  return why_too_many(config.threads, device);
}

std::vector<Config> ParsedKvAppend::search_space(const DeviceInfo& device, Effort) const {
  std::vector<Config> space;
  for (const int threads : {128, 64, 256, 512}) {
    KvAppendConfig config;
    config.threads = threads;
    if (why_invalid_of(device, config).empty()) space.push_back(config.to_config());
  }
  return space;
}

SourceParts ParsedKvAppend::parts_of(const KvAppendConfig& config) const {
  const KvAppendProblem& p = typed_;
  const std::int64_t rotary_dim = p.rope == Rope::none ? 0 : p.rotary_dim.value_or(p.head_dim);
  const auto named = [](const char* type, auto value) {
    std::string text(enum_name(value));
    std::ranges::replace(text, '-', '_');
    return "tunesmith::" + std::string(type) + "::" + text;
  };
  SourceParts parts;
  if (p.cached() == DType::e4m3) parts.includes = {"device/float8.cuh"};
  parts.includes.emplace_back("kv_append/kv_append.cuh");
  parts.kernel = "kv_append";
  parts.algorithm = "each head of q, k and v of a token is read once, normalized, rotated, rounded and written once";
  parts.threads = "neighbouring lanes have a head, each " + std::to_string(2 * vector_of(p)) +
                  " elements at a time; elements that rotate together are in one lane";
  std::string what = std::string(tunesmith::name(p.dtype)) + ", cache " + std::string(tunesmith::name(p.cached())) +
                     ", head_dim " + std::to_string(p.head_dim) + ", pages of " + std::to_string(p.page_size);
  if (p.rope != Rope::none)
    what += ", rope " + std::string(enum_name(p.rope)) + " of " + std::to_string(rotary_dim) + " elements";
  if (p.qk_norm) what += ", QK-norm";
  parts.specialized_for = {{"specialized for", what}, {"any", "tokens, heads, pages, strides, eps"}};
  parts.constants =
      "using Element = " + device_type(p.dtype) + ";\nusing Cached = " + device_type(p.cached()) +
      ";\nusing Angle = " + device_type(p.cos_sin_dtype) + ";\nusing Weight = " + device_type(p.weight_type()) +
      ";\n\nstatic constexpr tunesmith::KvAppendShape shape = {\n" + member("head_dim", p.head_dim) +
      member("head_dim_v", p.head_dim_v.value_or(p.head_dim)) + member("vector", vector_of(p)) +
      member("page_size", p.page_size) + member("rope", named("Rope", p.rope)) + member("rotary_dim", rotary_dim) +
      member("qk_norm", p.qk_norm) + member("scales", named("KvScales", p.scales)) +
      "};\n\nstatic constexpr tunesmith::KvAppendConfig config = {\n" + member("threads", config.threads) +
      "};\n\nstatic_assert(sizeof(tunesmith::KvAppendParams) == " + std::to_string(sizeof(KvAppendParams)) +
      ", \"the host fills the parameters by this layout\");\n" +
      "static_assert(tunesmith::RowUnits<shape>::lanes == " + std::to_string(lanes_of(p)) +
      ", \"the host starts blocks for as many rows\");\n";
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(config.threads) +
                  ")\nkv_append(const __grid_constant__ tunesmith::KvAppendParams params) {\n"
                  "  tunesmith::kv_append<Element, Cached, Angle, Weight, shape, config>(params);\n}\n";
  return parts;
}

namespace {

KvAppendParams parameters_of(const KvAppendProblem& p) {
  KvAppendParams params{};
  params.k_stride = p.k_stride.value();
  params.v_stride = p.v_stride.value();
  params.q_stride = p.q_stride.value_or(0);
  params.q_out_stride = p.q_out_stride.value_or(0);
  params.k_cache_strides = {p.k_page_stride.value(), p.k_slot_stride.value(), p.k_head_stride.value()};
  params.v_cache_strides = {p.v_page_stride.value(), p.v_slot_stride.value(), p.v_head_stride.value()};
  params.rows = rows_of(p);
  params.heads = static_cast<std::int32_t>(p.heads);
  params.kv_heads = static_cast<std::int32_t>(p.kv_heads);
  params.eps = static_cast<float>(p.eps);
  params.weight_offset = static_cast<float>(p.weight_offset);
  return params;
}

}  // namespace

LaunchPlan ParsedKvAppend::plan_of(const KvAppendConfig& config, const DeviceInfo&) const {
  using Params = KvAppendParams;
  static constexpr std::array<ArrayPlace, 13> places{{{"k", offsetof(Params, k)},
                                                      {"v", offsetof(Params, v)},
                                                      {"q", offsetof(Params, q)},
                                                      {"slot_mapping", offsetof(Params, slot_mapping)},
                                                      {"positions", offsetof(Params, positions)},
                                                      {"cos_sin", offsetof(Params, cos_sin)},
                                                      {"q_weight", offsetof(Params, q_weight)},
                                                      {"k_weight", offsetof(Params, k_weight)},
                                                      {"k_scale", offsetof(Params, k_scale)},
                                                      {"v_scale", offsetof(Params, v_scale)},
                                                      {"k_cache", offsetof(Params, k_cache)},
                                                      {"v_cache", offsetof(Params, v_cache)},
                                                      {"q_out", offsetof(Params, q_out)}}};
  LaunchPlan plan;
  const Params params = parameters_of(typed_);
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  const std::span<const ArrayInfo> arrays = array_view();
  for (const ArrayInfo& array : arrays) {
    const auto input = std::ranges::find(arrays, array.in_place_of, &ArrayInfo::name);
    plan.pointers.push_back({array.name, offset_of(array.name, places), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, false,
                             array.in_place_of.empty() ? -1 : static_cast<int>(input - arrays.begin())});
    if (array.output) describe_gaps(array, plan.pointers.back());
  }
  if (params.rows == 0) return plan;
  const std::int64_t rows_of_block = config.threads / lanes_of(typed_);
  plan.kernels.push_back(folded_launch("kv_append", (params.rows + rows_of_block - 1) / rows_of_block, config.threads, 0));
  return plan;
}

Problem ParsedKvAppend::verification_problem() const {
  constexpr std::int64_t tokens = 37, slots = 50, positions = 500;
  Problem small = problem();
  small.fields.set("tokens", std::min(typed_.tokens, tokens));
  small.fields.set("pages", std::min(typed_.pages, std::max<std::int64_t>(3, slots / typed_.page_size + 1)));
  if (typed_.max_positions) small.fields.set("max_positions", std::min(*typed_.max_positions, positions));
  return op().normalize(small);
}

}  // namespace tunesmith
