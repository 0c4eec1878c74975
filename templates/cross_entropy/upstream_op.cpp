#include "templates/cross_entropy/upstream_op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/half.h"
#include "templates/cross_entropy/finalize_params.cuh"
#include "templates/cross_entropy/problem.h"

namespace tunesmith::cross_entropy {

KeyParts ParsedUpstream::key() const {
  return {"dloss=" + std::string(enum_name(p_.dloss)), std::max<std::int64_t>(p_.rows, 1), 1};
}

SourceParts ParsedUpstream::parts_of(const OneBlockConfig&) const {
  return one_block::source("cross_entropy_upstream", "UpstreamParams", sizeof(UpstreamParams), "");
}

LaunchPlan ParsedUpstream::plan_of(const OneBlockConfig&, const DeviceInfo&) const {
  UpstreamParams params{};
  params.rows = p_.rows;
  params.losses = p_.dloss == Upstream::row ? p_.rows : 1;
  return one_block::launch_plan(
      "cross_entropy_upstream", params, arrays(),
      {offsetof(UpstreamParams, dloss), offsetof(UpstreamParams, dlse), offsetof(UpstreamParams, factor),
       offsetof(UpstreamParams, scaled_dloss), offsetof(UpstreamParams, scaled_dlse)});
}

void ParsedUpstream::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i)
      write_element(DType::f32, array.data, i, static_cast<float>(8 * one_block::noise(seed, array, i) - 4));
  }
}

CheckResult ParsedUpstream::check(std::span<const HostArray> arrays, std::int64_t) const {
  double largest = 0;
  const auto each = [&](const char* array, const auto& visit) {
    const HostArray& values = *find(arrays, array);
    for (std::int64_t i = 0; i < values.info.shape[0]; ++i) visit(i, read_element(DType::f32, values.data, i));
  };
  for (const char* array : {"dloss", "dlse"})
    each(array, [&](std::int64_t, double value) {
      largest = std::isnan(value) ? value : std::max(largest, std::fabs(value));  // a NaN stays
    });
  if (largest == 0 || !std::isfinite(largest)) largest = 1;
  one_block::Comparison comparison(p_.rows);
  comparison.compare("factor", *find(arrays, "factor"), largest, largest);
  for (const auto& [from, to] : {std::pair("dloss", "scaled_dloss"), std::pair("dlse", "scaled_dlse")})
    each(from, [&, to = to](std::int64_t i, double value) {
      comparison.compare(to, *find(arrays, to), value / largest, std::fabs(value / largest), i);
    });
  return comparison.result();
}

}  // namespace tunesmith::cross_entropy
