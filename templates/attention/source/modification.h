#pragma once
// The user functions score_mod and mask_mod: their checks, and their place in generated sources. Internal to templates/.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "templates/attention/settings.h"
#include "templates/op.h"

namespace tunesmith::attention {

/// Adds what the opening comments of the sources declare to problem.aux, which overrides equal names. Throws
/// Error(invalid_argument) for declarations that are malformed or contradict each other, and for too many of them.
void complete_modification(AttentionProblem& problem);
/// Throws Error(invalid_argument) that names the source and the line: the function is missing, or brackets do not match. The
/// compiler reports everything else.
void check_modification(const Settings& settings);

/// A parameter of mask_mod.
enum class MaskPlace : std::uint8_t { batch, head };
/// Returns whether this mask_mod may use it. False is certain.
bool mask_may_use(const std::string& mask_mod, MaskPlace place);

/// Returns the part of the problem class that depends on the sources; empty without them.
std::string modification_key(const Settings& settings);
/// Returns numbers as AttentionParams::aux has them, 0 for arrays.
std::array<std::uint64_t, max_aux> aux_bits(const Settings& settings);

/// Throws Error(invalid_argument) that says why score_mod cannot be differentiated over dual numbers and what to do instead,
/// as far as its words tell; the compiler reports everything else. `has_gradient`: score_mod_grad is given already.
void check_differentiable(const Settings& settings, bool has_gradient = false);
/// As check_modification(), for a function that returns the derivative of score_mod.
void check_score_mod_grad(const std::string& score_mod_grad);

/// Returns the type that kernels take as their Modification.
std::string modification_type(const Settings& settings);
/// The derivatives of a score_mod to compute.
struct Derivatives {
  std::string score_mod_grad{};    ///< source of the derivative by the score; empty: over dual numbers (dual.cuh)
  std::vector<std::string> aux{};  ///< names of arrays with derivatives by their elements (dual_elements.cuh)
};
/// Returns its definition with the sources; empty without them. `derivatives`: adds these.
std::string modification_definition(const Settings& settings, const Derivatives* derivatives = nullptr);
/// Returns the entry that evaluates it alone; empty without sources.
std::string modification_entry(const Settings& settings);
/// Returns the entry that evaluates the derivative of score_mod alone; empty without score_mod.
std::string score_gradient_entry(const Settings& settings);
/// Returns a launch of one of these entries. Arrays: settings.aux in order, then places (i32, rows x 5) and scores (f32,
/// rows x keys) as ModificationParams describes them.
enum class ModificationEntry : std::uint8_t { scores, derivatives };
LaunchPlan modification_plan(const Settings& settings, ModificationEntry entry, std::int64_t rows, std::int64_t keys);

}  // namespace tunesmith::attention
