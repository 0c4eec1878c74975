#pragma once
// A user's text in a problem: its fields, its checks, and what becomes of it in generated sources. Internal to templates/.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "templates/attention/problem.h"

namespace tunesmith::attention {

/// Fills in score_mod, mask_mod and aux; the other settings must be there. Declarations of the problem's field aux count
/// before those that the texts open with. Throws Error(invalid_argument).
void read_modification(const Problem& problem, Settings& settings);
/// Throws Error(invalid_argument) that names the text, the line, what is wrong and what is right: the function is missing,
/// brackets that would end in the wrong place. The rest is for the compiler to say.
void check_modification(const Settings& settings);

/// Parameters of mask_mod.
enum class MaskPlace : std::uint8_t { batch, head };
/// Whether mask_mod, which must be there, may look at it; certainly not where this is false.
bool mask_may_use(const Settings& settings, MaskPlace place);

/// What of the texts decides which configuration is fast; empty without one.
std::string modification_key(const Settings& settings);
/// Elements of an auxiliary array.
ArrayInfo aux_info(const Settings& settings, const Aux& aux);
/// Numbers as AttentionParams::aux has them, 0 for arrays.
std::array<std::uint64_t, most_aux> aux_bits(const Settings& settings);

/// The type that kernels take as their Modification.
std::string modification_type(const Settings& settings);
/// Its definition, around the texts; empty without one.
std::string modification_definition(const Settings& settings);
/// The entry that evaluates it alone; empty without one.
std::string modification_entry(const Settings& settings);
/// Launches that entry. Arrays: those of settings.aux in order, then places (i32, rows x 5) and scores (f32, rows x keys) as
/// ModificationParams describes them.
LaunchPlan modification_plan(const Settings& settings, std::int64_t rows, std::int64_t keys);

}  // namespace tunesmith::attention
