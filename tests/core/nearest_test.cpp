// The nearest names that error messages suggest.

#include "core/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace tunesmith {
namespace {

constexpr std::array<std::string_view, 4> names{"rows", "cols", "dtype", "label_smoothing"};

TEST(NearestName, FindsWhatWasMeant) {
  EXPECT_EQ(nearest_name("row", names), "rows");
  EXPECT_EQ(nearest_name("dtpye", names), "dtype");
  EXPECT_EQ(nearest_name("dtyp", names), "dtype");
  EXPECT_EQ(nearest_name("label-smoothing", names), "label_smoothing");
  EXPECT_EQ(nearest_name("labelsmothing", names), "label_smoothing");
}

TEST(NearestName, OffersNothingForSomethingElse) {
  EXPECT_EQ(nearest_name("colour", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("rows", {}), "");
}

}  // namespace
}  // namespace tunesmith
