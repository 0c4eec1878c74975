#pragma once
// Small problems of attention's backward pass with a score_mod, whose gradients are compared with central differences.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "jit/executable.h"
#include "templates/op.h"

namespace tunesmith::test {

/// Returns the normalized problem with additional fields that such a list cannot contain.
Problem backward_with_texts(const std::string& fields, const std::vector<std::pair<std::string, std::string>>& texts);

/// Returns a score_mod with this body.
std::string score_mod_of(const std::string& body);

/// Arrays as float64, by name.
using Numbers = std::map<std::string, std::vector<double>>;

/// A small dense problem in float32 with a score_mod, and the loss of its forward pass in float64.
struct ScoreModProblem {
  const char* score_mod;
  double (*exact)(double score, std::int64_t h, std::int64_t q, std::int64_t k, const Numbers& numbers);
  const char* options = "";
  double softcap = 0;
  bool causal = false, alibi = false;

  static constexpr std::int64_t heads = 4, kv_heads = 2, queries = 7, keys = 9, d = 16, d_v = 8;

  Problem problem() const;
  /// Writes o and lse, and returns sum(o * dout).
  double loss(Numbers& n) const;
};

/// Runs the kernels of `problem` and expects their gradients, by name with the array that they belong to, to be central
/// differences of the loss. Returns the largest one.
double compare_with_differences(const ScoreModProblem& small, const Problem& problem, const Executable& executable,
                                const std::map<std::string, std::string>& gradients);

}  // namespace tunesmith::test
