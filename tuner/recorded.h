#pragma once
// Reading tuning records, which another version, device or hand may have written.

#include <map>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "templates/op.h"

namespace tunesmith {

/// The configuration in canonical form, or nothing when the text is not a complete configuration that can run this problem
/// on this device. Never throws Error.
std::optional<Config> recorded_config(const ParsedProblem& problem, const DeviceInfo& device, const std::string& text);

/// Parses the problem that was measured. Throws Error for a record of another version.
ParsedProblemPtr recorded_problem(const Op& op, const TuningRecord& record);

/// Whether driver, clocks or power limit differ between the record's provenance and the device's present one. Only facts
/// that both name are compared: a machine without NVML knows fewer than the one that measured.
bool is_stale(const TuningRecord& record, const std::map<std::string, std::string>& provenance);

/// Returns the disturbances of the measurements and the reaction to them, in one line: "clocks fell from 1980 to 1620 MHz:
/// power cap; the final was measured again once". Empty if there were none.
std::string disturbance_text(const TuningRecord& record);

}  // namespace tunesmith
