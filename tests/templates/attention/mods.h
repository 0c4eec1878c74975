#pragma once
// Attention with a user's text: the examples that ship, problems around them, and a float64 reference of the test's own.

#include <functional>
#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith::test {

/// The text of api/examples/mods/<name>.cu.
std::string mod_example(const std::string& name);

/// "batch=2,..." with fields that no such list can spell, normalized.
Problem modified(const std::string& fields, const std::vector<std::pair<std::string, std::string>>& texts);

/// A problem's arrays on the host, filled.
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

/// What a text computes, in C++.
using ScoreMod = std::function<double(double score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)>;
using MaskMod = std::function<bool(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)>;

/// The largest difference of o and lse from attention computed in float64, of a dense bshd float32 problem without options
/// but these two. Infinite where one of both is not finite and the other is something else.
double largest_difference(const Problem& problem, const AttentionArraysOnHost& arrays, const ScoreMod& score_mod,
                          const MaskMod& mask_mod);

/// A score_mod of sines, cosines and tangents of small and of huge arguments, and what it computes; the score is ignored.
extern const char* const trigonometry_text;
double trigonometry_score(double score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k);

}  // namespace tunesmith::test
