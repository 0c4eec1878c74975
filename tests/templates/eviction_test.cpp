// Loads with evict_last, whose lines outlive the kernel: only for arrays of at least four times L2.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "templates/op.h"
#include "tests/support/cases.h"

namespace tunesmith {
namespace {

bool keeps_lines(const Config& config) {
  const Value* load = config.fields.find("load");
  return load != nullptr && std::get<std::string>(*load) == "evict_last";
}

struct Sizes {
  const char *op, *below, *above;  // fields of problems of 190 to 200 MiB and of 200 to 210 MiB of traffic; L2 has 50
};

TEST(EvictLast, IsForArraysOfFourTimesL2) {
  DeviceInfo device = generic_device(parse_arch("sm_90a"));
  device.l2_bytes = 50 << 20;
  for (const auto& [op, below, above] :
       {Sizes{"softmax", "rows=25000,cols=1024", "rows=26000,cols=1024"},
        Sizes{"softmax", "rows=24,cols=1048576", "rows=26,cols=1048576"},
        Sizes{"rms_norm", "rows=50000,cols=1024,dtype=bf16", "rows=52000,cols=1024,dtype=bf16"},
        Sizes{"cross_entropy", "rows=25000,cols=1024,gradient=in_place", "rows=26000,cols=1024,gradient=in_place"},
        Sizes{"cross_entropy_backward", "rows=25000,cols=1024", "rows=26000,cols=1024"},
        Sizes{"softmax", "rows=25,cols=1024,inner=1000", "rows=26,cols=1024,inner=1024"},
        Sizes{"copy", "elements=25000000", "elements=27000000"}})
    for (const Effort effort : {Effort::quick, Effort::full}) {
      const auto tried = [&](const char* fields) {
        return std::ranges::any_of(find_op(op).parse(test::normalized(op, fields))->search_space(device, effort),
                                   keeps_lines);
      };
      EXPECT_FALSE(tried(below)) << op << " " << below;
      EXPECT_TRUE(tried(above)) << op << " " << above;
    }
}

}  // namespace
}  // namespace tunesmith
