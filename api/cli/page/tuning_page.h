#pragma once
// One tuning as a self-contained HTML page, without scripts and without other files.

#include <optional>
#include <string>
#include <vector>

#include "api/cli/report/table.h"
#include "cache/cache.h"
#include "templates/op.h"

namespace tunesmith::cli {

struct TuningPage {
  TuningRecord record;
  std::string use;                      ///< how lookups find the record
  std::string instead_of;               ///< the requested problem, if the record is of a near one or another GPU
  std::vector<Trial> trials;            ///< of the record, in any order
  std::vector<TuningRecord> related;    ///< records of the operation, problem class and device, this one included
  Cost cost;                            ///< of the measured problem
  std::optional<double> copy_gb_per_s;  ///< of a copy of about as many bytes on the same device class
  std::vector<Column> resource_columns;
  std::vector<std::vector<std::string>> resources;  ///< a row for each kernel
  std::string no_resources;                         ///< why there are no resources
  std::string kernel, source;                       ///< the kernel alone, and the whole translation unit
  std::string no_source;                            ///< why there is no source
};

/// Returns the page. It follows the reader's light or dark colour scheme.
std::string html(const TuningPage& page);

}  // namespace tunesmith::cli
