#pragma once
// A tuner for engines with a scripted GPU: it takes its time and stores the default configuration.

#include <chrono>
#include <functional>
#include <thread>

#include "api/engine/parts.h"
#include "tuner/select.h"

namespace tunesmith::fleet {

/// Replaces the tuner of an engine; `begin` is called whenever it starts.
inline void script_tuner(Engine::Parts& parts, std::chrono::milliseconds takes, const std::function<void()>& begin) {
  parts.tuner = [&parts, takes, begin](const ParsedProblem& problem) -> std::optional<Tuned> {
    begin();
    std::this_thread::sleep_for(takes);
    TuningRecord record;
    record.key = tuning_key(problem, parts.device->info(), parts.templates);
    record.config = problem.default_config(parts.device->info()).text();
    record.effort = "quick";
    parts.cache->store_record(record, {});
    return Tuned{problem.default_config(parts.device->info()), 0.1, 0};
  };
}

}  // namespace tunesmith::fleet
