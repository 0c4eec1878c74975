#pragma once
// User masks with masked, unmasked and partial tiles, and the expected block mask, computed pair by pair.

#include <string>
#include <vector>

#include "tests/support/cases.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith::test {

struct Mask {
  std::string name;
  std::string text;
  std::string aux;  ///< in addition to the declarations in the source
  /// The same mask in C++, for a dense problem of these lengths.
  std::function<MaskMod(const AttentionArraysOnHost& arrays, std::int64_t seq_q, std::int64_t seq_kv)> mask_mod;

  /// Returns the normalized problem "heads=2,..." with this mask.
  Problem problem(const std::string& fields) const;
};

/// Returns the source of a mask_mod that returns this condition.
std::string mask_source(const std::string& condition);

/// Returns masks: documents, a dilated window, a prefix, blocks that depend on batch entry and head, blocks read from an
/// array, none, all, and all but one pair.
std::vector<Mask> masks();
/// Returns 16-bit problems with many tiles: odd lengths, grouped heads, additional causal masks and windows, packed
/// sequences, and block masks of more than one word per row.
std::vector<std::string> masked_shapes();

/// Compares the block mask with the mask of each pair. Returns a description of the first difference; empty if there is
/// none.
std::string wrong_block_mask(const Problem& problem, const AttentionArraysOnHost& arrays, const MaskMod& mask_mod);

}  // namespace tunesmith::test
