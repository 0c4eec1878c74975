#pragma once
// matmul: c = factor row_factors A B + bias, or added to c. Part of linear cross-entropy.

#include "templates/described_op.h"
#include "templates/matmul/product.h"
#include "templates/typed_problem.h"

namespace tunesmith::matmul {

class ParsedProduct final : public TypedProblem<ProductConfig> {
 public:
  ParsedProduct(const Op& op, const ProductProblem& problem) : TypedProblem(op, problem), p_(problem) {}

  static std::vector<std::string> templates() { return {"matmul"}; }
  KeyParts key() const override;
  Cost cost() const override;
  Config complete_config(const DeviceInfo& device, const Config& partial) const override {
    return matmul::complete_config(p_, device, partial);
  }
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override {
    return matmul::search_space(p_, device, effort);
  }
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  ProductConfig read(const Config& config) const override { return ProductConfig::parse(config); }
  ProductConfig default_of(const DeviceInfo& device) const override { return matmul::default_config(p_, device); }
  std::string why_invalid_of(const DeviceInfo& device, const ProductConfig& config) const override {
    return matmul::why_invalid(config, p_, device);
  }
  SourceParts parts_of(const ProductConfig& config) const override;
  LaunchPlan plan_of(const ProductConfig& config, const DeviceInfo& device) const override;

  const ProductProblem p_;
};

inline std::string_view summary_of(const ProductProblem&) noexcept { return "c = A B, in any order of operands"; }
inline std::vector<FieldInfo> config_fields_of(const ProductProblem&) { return config_fields(); }
/// Throws Error(invalid_argument) for an element type of c that is neither dtype nor f32.
void complete(ProductProblem& problem);

}  // namespace tunesmith::matmul

namespace tunesmith {

using MatmulOp = DescribedOp<matmul::ProductProblem, matmul::ParsedProduct>;

}  // namespace tunesmith
