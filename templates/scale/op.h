#pragma once
// scale: x = factor x in place, with the factor in device memory. Scales gradients by an upstream gradient, which is usually
// 1: the kernel then ends at once. Not tuned.

#include "templates/config_values.h"
#include "templates/described_op.h"
#include "templates/typed_problem.h"

namespace tunesmith {

struct ScaleArrays {
  void* x = nullptr;
  const void* factor = nullptr;
};

struct ScaleProblem {
  using Arrays = ScaleArrays;
  static constexpr bool internal = true;

  std::int64_t elements = 0;
  DType dtype = DType::f32;  ///< f32, f16 or bf16

  constexpr std::string_view op() const noexcept { return "scale"; }
};

template <DescribedAs<ScaleProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const ScaleArrays& arrays, Visitor& v) {
  v.field("elements", p.elements,
          {.meaning = "elements of the array", .range = {0, std::int64_t{1} << 50}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type", .choices = float_dtypes});
  v.array(arrays.x, {.name = "x", .role = Role::in_out, .dtype = p.dtype, .shape = {size(p.elements)}, .aligned_to = 16});
  v.array(arrays.factor, {.name = "factor", .shape = {fixed(1)}});
}

enum class ScaleVariant : std::uint8_t { stride };
template <>
inline constexpr std::array<std::string_view, 1> enum_names<ScaleVariant>{"stride"};

/// The configuration: a grid that fills the device strides over the array.
struct ScaleConfig {
  ScaleVariant variant = ScaleVariant::stride;
  int threads = 256;
  int vectors = 4;

  static ScaleConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const ScaleConfig&) const = default;
};

class ParsedScale final : public TypedProblem<ScaleConfig> {
 public:
  ParsedScale(const Op& op, const ScaleProblem& problem) : TypedProblem(op, problem), p_(problem) {}

  static std::vector<std::string> templates() { return {"scale"}; }
  KeyParts key() const override;
  Cost cost() const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  ScaleConfig read(const Config& config) const override { return ScaleConfig::parse(config); }
  ScaleConfig default_of(const DeviceInfo&) const override { return {}; }
  std::string why_invalid_of(const DeviceInfo& device, const ScaleConfig& config) const override;
  SourceParts parts_of(const ScaleConfig& config) const override;
  LaunchPlan plan_of(const ScaleConfig& config, const DeviceInfo& device) const override;

  const ScaleProblem p_;
};

inline std::string_view summary_of(const ScaleProblem&) noexcept {
  return "x = factor x, which ends at once for a factor of 1";
}
std::vector<FieldInfo> config_fields_of(const ScaleProblem&);
inline void complete(ScaleProblem&) noexcept {}

using ScaleOp = DescribedOp<ScaleProblem, ParsedScale>;

}  // namespace tunesmith
