#pragma once
// Attention with user functions: the shipped examples, problems that use them, and an independent float64 reference.

#include <functional>
#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith::test {

/// Returns the contents of api/examples/mods/<name>.cu.
std::string mod_example(const std::string& name);

/// Returns the normalized problem "batch=2,..." with additional fields that such a list cannot contain.
Problem modified(const std::string& fields, const std::vector<std::pair<std::string, std::string>>& texts);

/// A problem's filled arrays in host memory.
class AttentionArraysOnHost {
 public:
  AttentionArraysOnHost(const Problem& problem, std::uint64_t seed, InputKind kind = InputKind::random);

  const HostArray& operator[](std::string_view name) const;
  double real(std::string_view name, std::int64_t index) const;
  std::int64_t integer(std::string_view name, std::int64_t index) const;
  std::span<const HostArray> all() const { return arrays_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<HostArray> arrays_;
};

/// A user function in C++.
using ScoreMod = std::function<double(double score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)>;
using MaskMod = std::function<bool(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)>;

/// Returns the largest difference of o and lse from attention in float64, for a dense bshd float32 problem with no other
/// options. Infinite if only one of two elements is finite or they are different infinities.
double largest_difference(const Problem& problem, const AttentionArraysOnHost& arrays, const ScoreMod& score_mod,
                          const MaskMod& mask_mod);

/// A score_mod of sines, cosines and tangents of small and of huge arguments, and what it computes; the score is ignored.
extern const char* const trigonometry_text;
double trigonometry_score(double score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k);

}  // namespace tunesmith::test
