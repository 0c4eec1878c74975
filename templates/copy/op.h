#pragma once
// copy: y = a, or y = a + b. The bandwidth baseline of other operations, tuned like them.

#include "templates/config_values.h"
#include "templates/described_op.h"
#include "templates/typed_problem.h"

namespace tunesmith {

struct CopyArrays {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
};

struct CopyProblem {
  using Arrays = CopyArrays;
  static constexpr std::int64_t read_tile = 8192;  ///< as in copy.cuh
  static constexpr std::int64_t alignment = 16;    ///< bytes: kernels access full vectors

  std::int64_t elements = 0;  ///< of each array
  DType dtype = DType::f32;   ///< f32, f16 or bf16
  std::int64_t inputs = 1;    ///< 1: y = a; 2: y = a + b
  bool in_place = false;      ///< y is a
  bool write = true;          ///< false: y receives the maxima of tiles of 8192 elements, for read-only bandwidth

  constexpr std::string_view op() const noexcept { return "copy"; }
  constexpr std::int64_t tiles() const noexcept { return (elements + read_tile - 1) / read_tile; }
  std::int64_t bytes() const noexcept { return elements * (inputs + (write ? 1 : 0)) * size_of(dtype); }
};

template <DescribedAs<CopyProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const CopyArrays& arrays, Visitor& v) {
  constexpr std::int64_t max_elements = std::int64_t{1} << 50;
  v.field("elements", p.elements, {.meaning = "elements of each array", .range = {0, max_elements}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type", .choices = float_dtypes});
  v.field("inputs", p.inputs, {.meaning = "1: y = a; 2: y = a + b", .range = {1, 2}});
  v.field("in_place", p.in_place, {.meaning = "y is a"});
  v.option("write", p.write, {.meaning = "0: nothing is written but the maximum of every 8192 elements: a read"});
  const bool few = !p.write && p.elements >= 0 && p.elements <= max_elements;
  const auto whole = [&](std::string_view name) {
    return ArrayFacts{.name = name, .dtype = p.dtype, .shape = {size(p.elements)}, .aligned_to = CopyProblem::alignment};
  };
  v.array(arrays.a, whole("a"));
  ArrayFacts b = whole("b");
  b.present = p.inputs == 2;
  v.array(arrays.b, b);
  ArrayFacts y = whole("y");
  y.role = Role::output;
  y.in_place_of = p.in_place ? "a" : "";
  y.in_place = &p.in_place;
  y.shares = arrays.a;
  if (few) {
    y.dtype = DType::f32;
    y.shape = {fixed(p.tiles(), "tiles of 8192 elements")};
  }
  v.array(arrays.y, y);
}

enum class CopyVariant : std::uint8_t { stretch };
template <>
inline constexpr std::array<std::string_view, 1> enum_names<CopyVariant>{"stretch"};

struct CopyConfig {
  CopyVariant variant = CopyVariant::stretch;
  int threads = 256;
  int vectors = 1;
  LoadHint load = LoadHint::plain;
  StoreHint store = StoreHint::plain;

  static CopyConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const CopyConfig&) const = default;
};

class ParsedCopy final : public TypedProblem<CopyConfig> {
 public:
  ParsedCopy(const Op& op, const CopyProblem& problem) : TypedProblem(op, problem), shape_(problem) {}

  static std::vector<std::string> templates() { return {"copy"}; }
  KeyParts key() const override;
  Cost cost() const override;
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  CopyConfig read(const Config& config) const override { return CopyConfig::parse(config); }
  CopyConfig default_of(const DeviceInfo& device) const override;
  std::string why_invalid_of(const DeviceInfo& device, const CopyConfig& config) const override;
  SourceParts parts_of(const CopyConfig& typed) const override;
  LaunchPlan plan_of(const CopyConfig& config, const DeviceInfo& device) const override;

  const CopyProblem shape_;
};

inline std::string_view summary_of(const CopyProblem&) noexcept {
  return "y = a, or y = a + b: the bandwidth that other kernels are compared with";
}
std::vector<FieldInfo> config_fields_of(const CopyProblem&);
/// Throws Error(invalid_argument) for options that a read-only copy does not support.
void complete(CopyProblem& problem);

using CopyOp = DescribedOp<CopyProblem, ParsedCopy>;

}  // namespace tunesmith
