#pragma once
// One-shot calls of the C API: what the addresses of a call determine, and the plans of earlier calls. Internal.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "api/c/operations.h"
#include "tunesmith/problem.h"

namespace tunesmith {

/// Returns the problem with the alignments of these addresses, and with the output in place if it has the address of an
/// input. `arrays` are the arrays of `problem`. Throws Error(invalid_argument) for a wrong number of addresses, a null
/// pointer, and an address that is not aligned to an element.
Problem problem_at(const Problem& problem, std::span<const ArrayInfo> arrays, std::span<void* const> addresses);

/// The plans of a problem's last one-shot calls. Thread-safe.
class RecentPlans {
 public:
  /// Returns the plan of an earlier call to the same engine whose addresses had the same alignments and the same equalities;
  /// nullptr if there is none.
  std::shared_ptr<const Prepared> find(std::uint64_t engine, std::span<void* const> addresses) const;
  /// Adds a plan; replaces the oldest one if there are several.
  void add(std::uint64_t engine, std::span<void* const> addresses, std::shared_ptr<const Prepared> plan);
  void clear();

 private:
  static constexpr std::size_t most = 4;
  struct Entry {
    std::uint64_t engine;
    std::vector<std::uint16_t> pattern;
    std::shared_ptr<const Prepared> plan;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::size_t oldest_ = 0;
};

}  // namespace tunesmith
