// Every #include of the repository follows the order of the layers, and a violation is detected.

#include "tests/quality/layering.h"

#include <gtest/gtest.h>

#include <ostream>

#include "tests/support/source_folder.h"

namespace tunesmith {
namespace {

TEST(Layering, IncludesFollowTheOrderOfLayers) {
  const SourceTree tree = read_source_tree(source_folder());
  EXPECT_GT(count_includes(tree), 200) << "the sources were not found";
  for (const std::string& violation : layering_violations(tree)) ADD_FAILURE() << violation;
}

TEST(Layering, RowsNameNoOperation) {
  const auto violations = [](const std::string& line) {
    return layering_violations(
        {{"templates/softmax/op.h", "#pragma once\n"}, {"templates/row/shape.h", "#pragma once\n" + line + "\n"}});
  };
  EXPECT_EQ(violations("bool is_softmax = false;").size(), 1U);
  EXPECT_EQ(violations("// the maximum of log_softmax").size(), 1U);
  EXPECT_EQ(violations("bool composed = false;  // measured (softmax/NOTES.md, \"A finding\")").size(), 0U);
}

struct Case {
  const char* file;
  const char* include;  // as written
  bool allowed;
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.file << " includes " << one.include; }

class LayeringRules : public testing::TestWithParam<Case> {};

TEST_P(LayeringRules, AllowsOrRejectsAnInclude) {
  SourceTree tree;
  for (const char* path : {"core/include/tunesmith/types.h",
                           "api/include/tunesmith/engine.h",
                           "api/engine/parts.h",
                           "api/cli/report/table.h",
                           "api/examples/shapes.h",
                           "templates/op.h",
                           "templates/device/types.cuh",
                           "templates/softmax/params.cuh",
                           "templates/softmax/softmax.cuh",
                           "templates/attention/attention.cuh",
                           "templates/attention_backward/backward.cuh",
                           "templates/row/row.cuh",
                           "templates/row/shape.h",
                           "templates/softmax/op.h",
                           "templates/softmax/include/tunesmith/softmax.h",
                           "core/launch.h",
                           "jit/device.h",
                           "jit/cuda/driver.h",
                           "jit/host/fiber.h",
                           "cache/cache.h",
                           "tuner/tune.h",
                           "tests/arrays.h",
                           "bench/baseline.h"}) {
    tree[path] = "#pragma once\n";
  }
  tree[GetParam().file] = std::string("#pragma once\n#  include ") + GetParam().include + "\n";
  const std::vector<std::string> violations = layering_violations(tree);
  ASSERT_EQ(violations.size(), GetParam().allowed ? 0 : 1) << (violations.empty() ? "allowed" : violations[0]);
  if (!violations.empty()) {
    EXPECT_TRUE(violations[0].starts_with(std::string(GetParam().file) + ":2: ")) << violations[0];
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LayeringRules,
    testing::Values(
        Case{"jit/x.cpp", "\"cache/cache.h\"", false}, Case{"cache/x.cpp", "\"jit/device.h\"", false},
        Case{"cache/x.cpp", "\"templates/op.h\"", false}, Case{"templates/x.cpp", "\"jit/device.h\"", false},
        Case{"templates/softmax/x.cpp", "\"tunesmith/engine.h\"", false}, Case{"tuner/x.cpp", "<tunesmith/engine.h>", false},
        Case{"tuner/x.cpp", "\"api/engine/parts.h\"", false}, Case{"api/x.cpp", "\"api/cli/report/table.h\"", false},
        Case{"core/x.cpp", "\"templates/op.h\"", false}, Case{"core/x.cpp", "\"tunesmith/engine.h\"", false},
        Case{"api/cli/x.cpp", "\"tests/arrays.h\"", false}, Case{"api/include/tunesmith/x.h", "\"templates/op.h\"", false},
        Case{"core/include/tunesmith/x.h", "\"core/launch.h\"", false},
        Case{"templates/copy/x.cpp", "\"tunesmith/softmax.h\"", false},
        Case{"templates/softmax/include/tunesmith/x.h", "\"templates/softmax/op.h\"", false},
        Case{"api/include/tunesmith/c_api.h", "\"api/engine/parts.h\"", false},
        Case{"api/examples/x.cpp", "\"api/engine/parts.h\"", false}, Case{"api/examples/x.cpp", "\"jit/device.h\"", false},
        Case{"bench/x.cpp", "\"tests/arrays.h\"", false}, Case{"tests/x.cpp", "\"bench/baseline.h\"", false},
        Case{"jit/cuda/x.cpp", "\"jit/host/fiber.h\"", false}, Case{"jit/host/x.cpp", "\"jit/cuda/driver.h\"", false},
        Case{"templates/device/x.cuh", "\"softmax/softmax.cuh\"", false},
        Case{"templates/device/x.cuh", "\"tunesmith/types.h\"", false},
        Case{"templates/softmax/x.cuh", "<cuda_bf16.h>", false}, Case{"templates/softmax/x.cuh", "<cstdint>", false},
        Case{"templates/softmax/x.cuh", "\"attention/attention.cuh\"", false},
        Case{"templates/attention/x.cuh", "\"attention_backward/backward.cuh\"", false},
        Case{"templates/row/x.cuh", "\"softmax/softmax.cuh\"", false},
        Case{"templates/row/schedules/x.cuh", "\"softmax/softmax.cuh\"", false},
        Case{"templates/row/schedules/x.cpp", "\"templates/softmax/op.h\"", false},
        Case{"templates/device/x.cuh", "\"row/row.cuh\"", false}, Case{"templates/copy/x.cuh", "\"row/row.cuh\"", false},
        Case{"templates/row/x.cpp", "\"templates/softmax/op.h\"", false},
        Case{"templates/softmax/x.cpp", "\"templates/softmax/softmax.cuh\"", false},
        Case{"templates/row/x.cpp", "\"templates/softmax/params.cuh\"", false},
        Case{"tuner/x.cpp", "\"templates/softmax/params.cuh\"", false},
        Case{"templates/softmax/x.cpp", "\"templates/softmax/params.cuh\"", true},
        Case{"templates/copy/x.cpp", "\"templates/softmax/op.h\"", false}, Case{"tuner/x.cpp", "<sqlite3.h>", false},
        Case{"jit/cuda/x.cpp", "<cuda.h>", false}, Case{"tuner/x.cpp", "\"tuner/missing.h\"", false},
        Case{"tools/x.cpp", "\"tuner/tune.h\"", false}, Case{"cmake/x.cpp", "\"tuner/tune.h\"", false},
        Case{"templates/device/matrix.cuh", "<tunesmith_platform_host.h>", false},
        Case{"templates/attention/x.cuh", "<tunesmith_matrix_host.h>", false},

        Case{"templates/x.cpp", "\"tunesmith/types.h\"", true}, Case{"cmake/x.cpp", "\"tunesmith/types.h\"", true},
        Case{"templates/softmax/x.cpp", "\"tunesmith/softmax.h\"", true}, Case{"jit/x.cpp", "\"core/launch.h\"", true},
        Case{"api/examples/x.cpp", "<tunesmith/softmax.h>", true}, Case{"jit/x.cpp", "\"templates/op.h\"", true},
        Case{"jit/host/x.h", "\"device/types.cuh\"", true}, Case{"cache/x.cpp", "<sqlite3.h>", true},
        Case{"tuner/x.cpp", "\"cache/cache.h\"", true}, Case{"api/x.cpp", "\"tuner/tune.h\"", true},
        Case{"api/cli/x.cpp", "\"api/engine/parts.h\"", true}, Case{"api/examples/x.cpp", "<tunesmith/engine.h>", true},
        Case{"bench/x.cpp", "\"api/engine/parts.h\"", true}, Case{"tests/x.cpp", "\"api/cli/report/table.h\"", true},
        Case{"templates/softmax/x.cuh", "\"device/types.cuh\"", true},
        Case{"templates/softmax/x.cuh", "\"softmax/softmax.cuh\"", true},
        Case{"templates/row/x.cuh", "\"device/types.cuh\"", true}, Case{"templates/softmax/x.cuh", "\"row/row.cuh\"", true},
        Case{"templates/row/schedules/x.cuh", "\"row/row.cuh\"", true},
        Case{"templates/cross_entropy/x.cuh", "\"row/row.cuh\"", true},
        Case{"templates/attention_backward/x.cuh", "\"attention/attention.cuh\"", true},
        Case{"templates/copy/x.cpp", "\"templates/row/shape.h\"", true},
        Case{"templates/x.cpp", "\"templates/softmax/op.h\"", true},
        Case{"templates/device/platform.cuh", "<tunesmith_platform_host.h>", true},
        Case{"templates/device/matrix.cuh", "<tunesmith_matrix_host.h>", true}, Case{"jit/x.cpp", "<vector>", true}));

}  // namespace
}  // namespace tunesmith
