#include "templates/merge_attention_parts/op.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>

#include "templates/array_places.h"
#include "templates/folded_grid.h"
#include "templates/merge_attention_parts/params.cuh"
#include "templates/source_text.h"
#include "tunesmith/error.h"

namespace tunesmith {

void describe(const MergePartsConfigValues& c, Description& d) {
  d.field("variant", c.variant, {.meaning = "the kernel; there is one", .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block", .range = {32, 1024}, .power_of_two = true, .required = true});
  d.field("together", c.together,
          {.meaning = "parts that a lane loads at once", .range = {1, 16}, .power_of_two = true, .required = true});
}

MergePartsConfigValues MergePartsConfigValues::parse(const Config& config) {
  return read_config<MergePartsConfigValues>(config.fields);
}
Config MergePartsConfigValues::to_config() const { return {config_fields(*this)}; }
std::vector<FieldInfo> config_fields_of(const MergePartsProblem&) { return config_infos<MergePartsConfigValues>(); }

void complete(MergePartsProblem& p) {
  if (p.parts > 1 && p.batch * p.heads * p.seq_q > 0) return;
  p.lse_part_stride = p.batch * p.heads * p.seq_q;
  p.o_part_stride = *p.lse_part_stride * p.head_dim;
}

bool ParsedMergeParts::by_head() const noexcept { return typed_.layout == AttentionLayout::bshd; }

std::int64_t ParsedMergeParts::vector() const noexcept {
  std::int64_t elements = 16 / size_of(typed_.dtype);
  while (*typed_.o_part_stride % elements != 0) elements /= 2;
  return elements;
}

std::int64_t ParsedMergeParts::lanes() const noexcept {
  std::int64_t count = 1;
  while (count < 32 && count * vector() < typed_.head_dim) count *= 2;
  return count;
}

MergePartsConfigValues ParsedMergeParts::default_of(const DeviceInfo&) const {
  MergePartsConfigValues config;
  if (typed_.parts <= 2) config.together = 2;
  return config;
}

KeyParts ParsedMergeParts::key() const {
  KeyParts parts;
  parts.problem_class = std::string(tunesmith::name(typed_.dtype)) + "," + std::string(tunesmith::name(typed_.output())) +
                        ",vector=" + std::to_string(vector()) + (by_head() ? ",by_head" : "") +
                        ",parts=" + std::to_string(std::bit_ceil(static_cast<std::uint64_t>(typed_.parts)));
  parts.n_cols = typed_.head_dim;
  // From here on every GPU is full.
  constexpr std::uint64_t full = 1 << 20;
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(rows(), 1));
  parts.rows_bucket = static_cast<std::int64_t>(std::bit_ceil(std::min(count, full)));
  return parts;
}

Cost ParsedMergeParts::cost() const {
  const auto count = static_cast<double>(rows()), width = static_cast<double>(typed_.head_dim);
  Cost cost;
  cost.bytes_read = static_cast<double>(typed_.parts) * count * (width * static_cast<double>(size_of(typed_.dtype)) + 4);
  cost.bytes_written = count * (width * static_cast<double>(size_of(typed_.output())) + 4);
  return cost;
}

std::string ParsedMergeParts::why_invalid_of(const DeviceInfo& device, const MergePartsConfigValues& config) const {
  return why_too_many(config.threads, device);
}

std::vector<Config> ParsedMergeParts::search_space(const DeviceInfo& device, Effort) const {
  const MergePartsConfigValues usual = default_of(device);
  std::vector<Config> space{usual.to_config()};
  for (const int together : {4, 2, 8})
    for (const int threads : {128, 64, 256}) {
      MergePartsConfigValues config;
      config.threads = threads;
      config.together = together;
      if (config != usual && why_invalid_of(device, config).empty()) space.push_back(config.to_config());
    }
  return space;
}

SourceParts ParsedMergeParts::parts_of(const MergePartsConfigValues& config) const {
  SourceParts parts;
  parts.includes = {"merge_attention_parts/merge_attention_parts.cuh"};
  parts.kernel = "merge_attention_parts";
  parts.algorithm = "the outputs of all parts are read once and summed with weights relative to the largest lse so far";
  parts.threads = "neighbouring lanes have a row, each " + std::to_string(vector()) + " elements at a time of " +
                  std::to_string(config.together) + " parts";
  parts.specialized_for = {{"specialized for", std::string(tunesmith::name(typed_.dtype)) + ", o in " +
                                                   std::string(tunesmith::name(typed_.output())) + ", head_dim " +
                                                   std::to_string(typed_.head_dim)},
                           {"any", "parts, batch, heads, queries, base of the logarithms"}};
  parts.constants = "using Element = " + device_type(typed_.dtype) + ";\nusing Out = " + device_type(typed_.output()) +
                    ";\n\nstatic constexpr tunesmith::MergePartsShape shape = {\n" + member("head_dim", typed_.head_dim) +
                    member("vector", vector()) + member("by_head", by_head()) +
                    "};\n\nstatic constexpr tunesmith::MergePartsConfig config = {\n" + member("threads", config.threads) +
                    member("together", config.together) + "};\n\nstatic_assert(sizeof(tunesmith::MergePartsParams) == " +
                    std::to_string(sizeof(MergePartsParams)) + ", \"the host fills the parameters by this layout\");\n" +
                    "static_assert(tunesmith::PartLanes<shape>::count == " + std::to_string(lanes()) +
                    ", \"the host starts blocks for as many rows\");\n";
  parts.kernels = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(config.threads) +
                  ")\nmerge_attention_parts(const __grid_constant__ tunesmith::MergePartsParams params) {\n"
                  "  tunesmith::merge_attention_parts<Element, Out, shape, config>(params);\n}\n";
  return parts;
}

LaunchPlan ParsedMergeParts::plan_of(const MergePartsConfigValues& config, const DeviceInfo&) const {
  using Params = MergePartsParams;
  static constexpr std::array<ArrayPlace, 4> places{{{"o_parts", offsetof(Params, o_parts)},
                                                     {"lse_parts", offsetof(Params, lse_parts)},
                                                     {"o", offsetof(Params, o)},
                                                     {"lse", offsetof(Params, lse)}}};
  Params params{};
  params.o_part_stride = typed_.o_part_stride.value();
  params.lse_part_stride = typed_.lse_part_stride.value();
  params.rows = rows();
  params.parts = static_cast<std::int32_t>(typed_.parts);
  params.inner = static_cast<std::int32_t>(by_head() ? typed_.heads : typed_.seq_q);
  params.outer = static_cast<std::int32_t>(by_head() ? typed_.seq_q : typed_.heads);
  const bool natural = typed_.lse_base == LseBase::e;
  params.log2_of_base = natural ? std::numbers::log2e_v<float> : 1.0F;
  params.log_of_e = natural ? 1.0F : std::numbers::log2e_v<float>;
  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  for (const ArrayInfo& array : array_view()) {
    plan.pointers.push_back({array.name, offset_of(array.name, places), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, array.optional, -1});
  }
  if (params.rows == 0) return plan;
  const std::int64_t rows_of_block = config.threads / lanes();
  plan.kernels.push_back(
      folded_launch("merge_attention_parts", (params.rows + rows_of_block - 1) / rows_of_block, config.threads, 0));
  return plan;
}

Problem ParsedMergeParts::verification_problem() const {
  constexpr std::int64_t parts = 11, sequences = 3, heads = 5, queries = 7;
  Problem small = problem();
  small.fields.set("parts", std::min(typed_.parts, parts));
  small.fields.set("batch", std::min(typed_.batch, sequences));
  small.fields.set("heads", std::min(typed_.heads, heads));
  small.fields.set("seq_q", std::min(typed_.seq_q, queries));
  return op().normalize(small);
}

}  // namespace tunesmith
