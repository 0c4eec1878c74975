#pragma once
// Golden sources: generated texts that a commit is meant to leave as they are.
//
// tests/templates/golden/digests.txt has one line for each text, "group/name digest". The texts that a reader wants are
// files next to it, golden/group/name.cu. A text with its recorded digest is saved in build/golden, under its digest, so
// that a later change is shown as a difference. scripts/golden_diff.sh saves the texts of another commit there.

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tunesmith::test {

class GoldenSources {
 public:
  /// Reads the digests of `group`, one test's texts.
  explicit GoldenSources(std::string group);

  /// Fails the running test if `text` is not the golden source `name`, and shows the difference if the golden text is known.
  void check(const std::string& name, std::string_view text);

  /// Fails the running test if a digest or a file belongs to no text that was checked. If the environment sets
  /// TUNESMITH_UPDATE_GOLDEN, writes the digests and the files of the checked texts instead.
  void finish();

 private:
  std::string group_;
  std::map<std::string, std::string> digests_;  // of all groups, by "group/name"
  std::map<std::string, std::string> checked_;
  bool update_;
};

}  // namespace tunesmith::test
