#pragma once
// Selects the winner of the finalists by time; differences within the noise do not count.

#include <cstddef>
#include <span>

#include "tuner/statistics.h"

namespace tunesmith {

/// Index of the winner among finalists that were timed together; the first is the default, the others are in the order of
/// the search space, which is from simple to elaborate. The fastest must beat the default by more than 1% and by more than
/// the noise of both; among those within half a percent of it that do so too, the earliest wins.
std::size_t choose_winner(std::span<const Timing> finalists);

}  // namespace tunesmith
