#pragma once
// Masks as users write them, of which tiles are wholly hidden, wholly kept or neither; and what a kernel should find out
// about tiles, pair by pair.

#include <string>
#include <vector>

#include "tests/templates/attention/mods.h"
#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

struct Mask {
  std::string name;
  std::string text;
  std::string aux;  ///< beside what the text declares
  /// The same in C++, of a dense problem of these lengths.
  std::function<MaskMod(const AttentionArraysOnHost& arrays, std::int64_t seq_q, std::int64_t seq_kv)> mask_mod;

  /// "heads=2,..." with this mask, normalized.
  Problem problem(const std::string& fields) const;
};

/// The whole text of a mask_mod that returns this.
std::string mask_text(const std::string& condition);

/// Documents, a dilated window, a prefix, blocks by batch entry and head, blocks by an array, nothing, everything,
/// everything but one pair.
std::vector<Mask> masks();
/// Problems of many tiles: odd lengths, grouped heads, causal masks and windows beside, packed sequences, more than one word
/// of tiles. 16 bits.
std::vector<std::string> masked_shapes();

/// Words of mask_tiles that differ from what the mask says of each pair; described, empty when none does.
std::string wrong_words(const Problem& problem, const AttentionArraysOnHost& arrays, const MaskMod& mask_mod);

}  // namespace tunesmith::test
