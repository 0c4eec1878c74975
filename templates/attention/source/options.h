#pragma once
// The options that attention kernels are compiled for, one row each. The problem class, the generated shape and features,
// and the head of a source derive from the table. Internal to templates/.

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "templates/attention/settings.h"

namespace tunesmith::attention {

/// How rows come into shared memory (AlignedChunks and UnalignedChunks).
enum class Chunks : std::uint8_t { none, aligned, unaligned };
/// The types of AttentionFeatures that a kernel uses.
struct FeatureUse {
  bool steps = false;  ///< options are applied to a whole tile at a time
  bool sinks = false;
  bool ring = false;     ///< Q tiles of a block of keys
  bool rows = false;     ///< threads copy rows of K and V
  bool boxes = false;    ///< TMA loads boxes of K and V
  std::string argument;  ///< type of the kernel's argument
  Chunks chunks = Chunks::none;
  bool products = false;  ///< of a warp, in the forward pass
  bool scales = false;    ///< of keys and values
};

/// A type of AttentionFeatures that an option adds.
struct Feature {
  const char *name = nullptr, *type = nullptr;
  bool FeatureUse::*only_with = nullptr;  ///< nullptr: every kernel uses it
};

struct Option {
  std::int64_t (*value)(const Settings&);  ///< 0: not set
  const char* flag = "";                   ///< member of AttentionShape; "": none
  const char* key = "";                    ///< in the problem class; "": modification_key() and others say more
  const char* head = "";                   ///< what the source is specialized for; "": another row says it
  const char* any = "";                    ///< the option's part that is not compiled in
  bool is_number = false;                  ///< the value is compiled in, and follows `key` and `head`
  std::array<Feature, 2> features{};
};

/// Returns all options, in the order of AttentionShape's members.
std::span<const Option> all_options();

/// Returns the options of a problem class: ",softcap,alibi".
std::string options_key(const Settings& settings);
/// Returns their members of AttentionShape, as a designated initializer has them.
std::string options_flags(const Settings& settings);

}  // namespace tunesmith::attention
