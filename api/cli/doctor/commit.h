#pragma once
// The commit that `tunesmith doctor` reports.

namespace tunesmith::cli {

/// The commit of the sources, such as "9b2ec76cdf60", with "-dirty" if they were changed; "unknown" outside of a checkout
/// and of a source archive. Defined by the build (cmake/commit.cmake).
extern const char* const commit;

}  // namespace tunesmith::cli
