#pragma once
// Collects the facts of a tuning that a page shows. Needs no GPU.

#include <string>

#include "api/cli/page/tuning_page.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

struct FoundTuning {
  TuningRecord record;
  std::string instead_of;  ///< the requested problem, if the record is of a near one or of another GPU; else empty
};

/// Finds the record of the problem, or of the nearest n_cols: on this machine's GPU, or on another device if there is none
/// of its own. Throws Error(not_found).
FoundTuning find_tuning(const Problem& problem, Cache& cache, const TemplateSet& templates);

/// Compiles the kernel for its resources; without NVRTC, the page says why it has none.
TuningPage gather(const TuningRecord& record, Cache& cache, const EngineOptions& options);

/// Writes the page. Throws Error(io).
void write_page(const TuningPage& page, const std::string& file);

}  // namespace tunesmith::cli
