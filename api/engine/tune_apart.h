#pragma once
// Tunes in a child process, so that a candidate that faults or hangs does not take this process's CUDA context with it.
// Internal.

#include <string>

#include "api/engine/parts.h"
#include "tunesmith/fields.h"

namespace tunesmith {

class TuningReport;

/// Reports whether the problem contains user source, which may fault or never end.
bool has_user_source(const ParsedProblem& problem);

/// Tunes with options.tuner_program, which stores the record in the cache file. Kills it after tuning_limit_s(). Throws the
/// error of the tuning run, Error(device_failed) if the process crashed or hung, Error(not_found) without a program,
/// Error(io) if the program cannot be started, and, once the process has stopped, the report's exception.
Tuned tune_apart(const Engine::Parts& parts, const ParsedProblem& problem, TuningReport& report);

/// A step of a tuning process: one line on stdout, before the answer.
std::string progress_text(int done, int total, const std::string& what);
/// The answer of a tuning process: its last line on stdout.
std::string answer_text(const Tuned& tuned);
std::string answer_text(const Error& error);

}  // namespace tunesmith
