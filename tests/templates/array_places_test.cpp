// Where kernels take the addresses of arrays from.

#include "templates/array_places.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "templates/attention/source/kernel_source.h"
#include "templates/attention_backward/kernel_layout.h"
#include "templates/cross_entropy/source.h"
#include "templates/op.h"
#include "templates/row/launch.h"
#include "tests/support/cases.h"
#include "tests/support/source_folder.h"

namespace tunesmith {
namespace {

TEST(ArrayPlaces, UnknownArraysAreErrors) {
  constexpr std::array<ArrayPlace, 2> places{{{"x", 8}, {"y", 16}}};
  EXPECT_EQ(offset_of("y", places), 16U);
  EXPECT_THROW((void)offset_of("z", places), Error);
  EXPECT_THROW((void)attention::pointer_offset("cu_seqlens", attention::Settings{}), Error);
  EXPECT_THROW((void)attention_backward::pointer_offset("cu_seqlens", attention_backward::Settings{}, false), Error);
  EXPECT_THROW((void)cross_entropy::pointer_offset("cu_seqlens_kv", cross_entropy::Settings{}), Error);
  EXPECT_THROW((void)row::offset_of_rows(ArrayInfo(), 2), Error);  // a third input
}

// Two arrays at one address would overwrite each other's.
TEST(ArrayPlaces, EveryArrayHasAPlaceOfItsOwn) {
  std::ifstream lines(source_folder() / "tests/templates/kernel_variants.txt");
  std::size_t plans = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string name, arch, config, fields;
    words >> name >> arch >> config;
    std::getline(words >> std::ws, fields);
    const ParsedProblemPtr problem = find_op(name).parse(test::normalized(name, fields));
    const DeviceInfo device = generic_device(parse_arch(arch));
    const LaunchPlan plan =
        problem->launch_plan(problem->complete_config(device, Config{parse_fields(config, "config")}), device);
    std::map<std::uint32_t, std::string> taken;
    for (const LaunchPlan::Pointer& pointer : plan.pointers) {
      EXPECT_TRUE(taken.emplace(pointer.offset, pointer.array).second)
          << line << ": " << pointer.array << " has the place of " << taken[pointer.offset];
      EXPECT_LE(pointer.offset + sizeof(void*), plan.params.size()) << line << ": " << pointer.array;
    }
    ++plans;
  }
  EXPECT_GE(plans, 100U);
}

}  // namespace
}  // namespace tunesmith
