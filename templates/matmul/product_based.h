#pragma once
// Base of operations whose main kernel is a matrix product: their configurations are the product's. Internal.

#include "templates/matmul/product.h"
#include "templates/typed_problem.h"

namespace tunesmith::matmul {

class ProductBased : public TypedProblem<ProductConfig> {
 public:
  Config complete_config(const DeviceInfo& device, const Config& partial) const override {
    return matmul::complete_config(product_, device, partial, default_of(device));
  }
  std::vector<Config> search_space(const DeviceInfo& device, Effort effort) const override {
    return matmul::search_space(product_, device, effort, default_of(device));
  }

 protected:
  template <typename Typed>
  ProductBased(const Op& op, const Typed& typed, const ProductProblem& product)
      : TypedProblem(op, typed), product_(product) {}

  const ProductProblem& product() const noexcept { return product_; }
  ProductConfig default_of(const DeviceInfo& device) const override { return matmul::default_config(product_, device); }

 private:
  ProductConfig read(const Config& config) const override { return ProductConfig::parse(config); }
  std::string why_invalid_of(const DeviceInfo& device, const ProductConfig& config) const override {
    return matmul::why_invalid(config, product_, device);
  }

  const ProductProblem product_;
};

}  // namespace tunesmith::matmul
