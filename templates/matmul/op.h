#pragma once
// matmul: c = factor row_factors A B + bias, or added to c. Part of linear cross-entropy.

#include "templates/described_op.h"
#include "templates/matmul/product_based.h"

namespace tunesmith::matmul {

class ParsedProduct final : public ProductBased {
 public:
  ParsedProduct(const Op& op, const ProductProblem& problem) : ProductBased(op, problem, problem) {}

  static std::vector<std::string> templates() { return {"matmul"}; }
  KeyParts key() const override;
  Cost cost() const override;
  Problem verification_problem() const override;
  void fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const override;
  CheckResult check(std::span<const HostArray> arrays, std::int64_t max_rows) const override;

 private:
  SourceParts parts_of(const ProductConfig& config) const override;
  LaunchPlan plan_of(const ProductConfig& config, const DeviceInfo& device) const override;
};

inline std::string_view summary_of(const ProductProblem&) noexcept { return "c = A B, in any order of operands"; }
inline std::vector<FieldInfo> config_fields_of(const ProductProblem&) { return config_fields(); }
/// Throws Error(invalid_argument) for an element type of c that is neither dtype nor f32.
void complete(ProductProblem& problem);

}  // namespace tunesmith::matmul

namespace tunesmith {

using MatmulOp = DescribedOp<matmul::ProductProblem, matmul::ParsedProduct>;

}  // namespace tunesmith
