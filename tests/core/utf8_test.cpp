// Texts that may hold any bytes.

#include "core/utf8.h"

#include <gtest/gtest.h>

namespace tunesmith {
namespace {

TEST(Utf8, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(printable("a\x1B[31m\x7F\r b\tc\nd \u00E4"), "a?[31m?? b\tc\nd \u00E4");
}

TEST(Utf8, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(printable("a\xFF\xFE b"), "a\uFFFD\uFFFD b");
  EXPECT_EQ(printable("\xC3"), "\uFFFD");                      // cut off
  EXPECT_EQ(printable("\xC0\x80"), "\uFFFD\uFFFD");            // longer than needed
  EXPECT_EQ(printable("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(printable("\U0001F600"), "\U0001F600");
  EXPECT_EQ(printable(""), "");
}

TEST(Utf8, TextBeginsAfterAMark) {
  EXPECT_EQ(without_mark("\xEF\xBB\xBFx"), "x");
  EXPECT_EQ(without_mark("x\xEF\xBB\xBF"), "x\xEF\xBB\xBF");
  EXPECT_EQ(without_mark("\xEF\xBB"), "\xEF\xBB");
}

}  // namespace
}  // namespace tunesmith
