// Digests of templates and keys of sources: what changes them and what does not.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/tokens.h"
#include "templates/render.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// The embedded templates with one file changed.
class ChangedTemplates : public testing::Test {
 protected:
  ChangedTemplates() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-render-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ChangedTemplates() override { std::filesystem::remove_all(folder_); }

  TemplateSet with(const std::string& changed, const std::string& before, const std::string& after = "") {
    for (const auto& [name, content] : TemplateSet::embedded().files()) {
      std::filesystem::create_directories((folder_ / name).parent_path());
      std::ofstream file(folder_ / name);
      if (name == changed)
        file << before << content << after;
      else
        file << content;
    }
    return TemplateSet::from_folder(folder_);
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(ChangedTemplates, TheBuildComputedTheDigests) {
  const TemplateSet& embedded = TemplateSet::embedded();
  const TemplateSet read = with("", "");
  for (const auto& [name, content] : embedded.files()) EXPECT_EQ(embedded.digest(name), read.digest(name)) << name;
  for (const char* const folder : {"softmax", "cross_entropy", "attention", "device"})
    EXPECT_EQ(embedded.digest(folder), read.digest(folder)) << folder;
  EXPECT_EQ(embedded.digest("softmax/resident.cuh"), token_digest(embedded.flatten("softmax/resident.cuh")));
  EXPECT_EQ(embedded.digest("softmax").size(), 32U);
  EXPECT_NE(embedded.digest("softmax/resident.cuh"), embedded.digest("softmax/tiled.cuh"));
  EXPECT_THROW(embedded.digest("softmax/magic.cuh"), Error);
  EXPECT_THROW(embedded.digest("magic"), Error);
}

TEST_F(ChangedTemplates, DigestsFollowTokensOfIncludedFiles) {
  const TemplateSet& embedded = TemplateSet::embedded();
  // device/types.cuh is included two levels down.
  const TemplateSet commented = with("device/types.cuh", "// why\n\n", "/* how */\n");
  const TemplateSet changed = with("device/types.cuh", "", "struct Changed {};\n");
  EXPECT_EQ(commented.digest("softmax/resident.cuh"), embedded.digest("softmax/resident.cuh"));
  EXPECT_EQ(commented.digest("softmax"), embedded.digest("softmax"));
  EXPECT_NE(changed.digest("softmax/resident.cuh"), embedded.digest("softmax/resident.cuh"));
  EXPECT_NE(changed.digest("softmax"), embedded.digest("softmax"));
  // Other operations do not see this one's kernels.
  const TemplateSet of_softmax = with("softmax/resident.cuh", "", "struct Changed {};\n");
  EXPECT_NE(of_softmax.digest("softmax"), embedded.digest("softmax"));
  EXPECT_EQ(of_softmax.digest("attention"), embedded.digest("attention"));
}

TEST_F(ChangedTemplates, KeysOfSourcesFollowTokensAndEverythingGenerated) {
  const Op& op = find_op("softmax");
  const auto key = [&](std::int64_t cols, const char* config, const TemplateSet& templates, std::int64_t rows = 64) {
    const ParsedProblemPtr problem = op.parse({"softmax", {{"rows", rows}, {"cols", cols}}});
    const Config partial{parse_fields(config, "config")};
    return KernelSource(*problem, problem->complete_config(generic_device({9, 0, 'a'}), partial), templates).key();
  };
  const TemplateSet& embedded = TemplateSet::embedded();
  const std::string original = key(2000, "variant=two_pass,threads=128", embedded);
  EXPECT_EQ(original.size(), 32U);
  EXPECT_EQ(key(2000, "variant=two_pass,threads=128", embedded, 4096), original) << "rows are no part of the source";
  EXPECT_NE(key(2004, "variant=two_pass,threads=128", embedded), original);
  EXPECT_NE(key(2000, "variant=two_pass,threads=256", embedded), original);
  EXPECT_EQ(key(2000, "variant=two_pass,threads=128", with("device/types.cuh", "// why\n")), original);
  EXPECT_NE(key(2000, "variant=two_pass,threads=128", with("device/types.cuh", "", "struct Changed {};\n")), original);
}

}  // namespace
}  // namespace tunesmith
