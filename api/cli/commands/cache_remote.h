#pragma once
// The commands of `tunesmith cache` that concern the cache of several hosts: push, pull, sync, keys, stats.

#include "api/cli/commands/commands.h"

namespace tunesmith::cli {

/// Adds them to `cache`.
void add_cache_remote(CLI::App& cache, Parse& parse);

}  // namespace tunesmith::cli
