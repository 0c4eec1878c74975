#pragma once
// CLI11's parser for headers that only name it: the header of CLI11 costs every source that reads it more than a second.

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}  // namespace CLI
