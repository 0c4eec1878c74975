#pragma once
// A configuration after its operation has read it.

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tunesmith/problem.h"

namespace tunesmith {

/// A configuration as the kernels of its operation take it: a struct of the operation, which reads named values once
/// (ParsedProblem::configure()). Immutable and thread-safe; copies share it.
class KernelConfig {
 public:
  /// Of no operation; has no values.
  KernelConfig() = default;
  /// Typed has to_config() and ==.
  template <typename Typed>
  requires requires(const Typed& typed) { typed.to_config(); }
  explicit KernelConfig(Typed typed) : shared_(std::make_shared<const Of<Typed>>(std::move(typed))) {}

  /// Throws std::bad_cast for a configuration of another operation.
  template <typename Typed>
  const Typed& as() const {
    return dynamic_cast<const Of<Typed>&>(*shared_).typed;
  }
  /// Returns the named values in canonical order, written on the first call; valid as long as a copy of this object.
  const Config& config() const {
    std::call_once(shared_->once, [this] { shared_->named = shared_->write(); });
    return shared_->named;
  }
  std::string text() const { return config().text(); }

  bool operator==(const KernelConfig& other) const {
    return shared_ == other.shared_ || (shared_ && other.shared_ && shared_->equals(*other.shared_));
  }

 private:
  struct Shared {
    virtual ~Shared() = default;
    virtual Config write() const = 0;
    virtual bool equals(const Shared& other) const = 0;
    mutable std::once_flag once;
    mutable Config named;
  };
  template <typename Typed>
  struct Of final : Shared {
    explicit Of(Typed value) : typed(std::move(value)) {}
    Config write() const override { return typed.to_config(); }
    bool equals(const Shared& other) const override {
      const auto* const same = dynamic_cast<const Of*>(&other);
      return same != nullptr && typed == same->typed;
    }
    const Typed typed;
  };

  std::shared_ptr<const Shared> shared_;
};

}  // namespace tunesmith
