#pragma once
// CLI11's classes for headers that only name them: including CLI11 costs more than a second of compile time.

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
class Option;
}  // namespace CLI
