#pragma once
// Collects the facts of a tuning that a page shows. Needs no GPU.

#include <string>

#include "api/cli/page/tuning_page.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

/// Finds the record of the problem on this machine's GPU, or on any device if there is none; if the problem has no record of
/// its own, the record of the nearest n_cols. Throws Error(not_found).
TuningRecord find_tuning(const Problem& problem, Cache& cache, const TemplateSet& templates);

/// Compiles the kernel for its resources; without NVRTC, the page says why it has none.
TuningPage gather(const TuningRecord& record, Cache& cache, const EngineOptions& options);

/// Writes the page. Throws Error(io).
void write_page(const TuningPage& page, const std::string& file);

}  // namespace tunesmith::cli
