// The page about a tuning: its pieces, and that it is well-formed HTML that escapes what it shows.

#include <gtest/gtest.h>

#include <set>

#include "api/cli/page/chart.h"
#include "api/cli/page/highlight.h"
#include "api/cli/page/html.h"
#include "api/cli/page/tuning_page.h"
#include "templates/render.h"

namespace tunesmith::cli {
namespace {

/// Returns the text of an HTML fragment, with what escaped() escapes.
std::string text_of(const std::string& html) {
  std::string text;
  bool in_tag = false;
  for (const char c : html) {
    if (c == '<') in_tag = true;
    if (!in_tag) text += c;
    if (c == '>') in_tag = false;
  }
  for (const auto& [entity, character] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}})
    for (std::size_t at = text.find(entity); at != std::string::npos; at = text.find(entity, at + 1))
      text.replace(at, std::string_view(entity).size(), character);
  return text;
}

/// Expects that every element is closed in order.
void expect_balanced(const std::string& html) {
  static const std::set<std::string> without_end{"!DOCTYPE", "meta"};
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /"));
    if (tag.starts_with("/")) {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ("/" + open.back(), tag) << html.substr(at > 200 ? at - 200 : 0, 300);
      open.pop_back();
    } else if (!tag.ends_with("/") && !without_end.contains(name)) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

TuningPage example() {
  TuningPage page;
  page.record.key = {"softmax", "in=f32,out=f32,vector=4,in_place=0", 1024, 64, "NVIDIA Test;sm_90a;sm=1;l2=1MiB", "d", "p"};
  page.record.config = "variant=warp,lanes=32";
  page.record.problem = "softmax rows=64,cols=1024,dtype=f32";
  page.record.median_us = 2;
  page.record.mad_us = 0.1;
  page.record.default_median_us = 3;
  page.record.bytes = 4e6;
  page.trials = {{"variant=block", "timed", 3, 0.2, 20, ""},
                 {"variant=warp,lanes=32", "timed", 2, 0.1, 20, ""},
                 {"variant=<cluster>", "wrong", 0, 0, 0, "y[0,0] is 1 & not \"2\""}};
  page.related = {page.record, page.record};
  page.related[1].key.n_cols = 2048;
  page.cost = {2e6, 2e6, 1e6};
  page.copy_gb_per_s = 4000;
  page.resource_columns = {{"kernel"}, {"registers", true}};
  page.resources = {{"softmax", "64"}};
  page.kernel = "__global__ void k(int* x) { *x = 1 < 2; }  // <comment>\n";
  page.source = "#define X\n" + page.kernel;
  return page;
}

TEST(Page, EscapesText) { EXPECT_EQ(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;"); }

TEST(Page, HighlightingKeepsTheText) {
  const std::string source =
      render(*find_op("softmax").parse(
                 find_op("softmax").normalize({"softmax", {{"rows", std::int64_t{8}}, {"cols", std::int64_t{1000}}}})),
             {parse_fields("variant=block,threads=128,min_blocks=1,registers=float32,load=plain,store=plain", "config")});
  const std::string html = highlighted(source);
  EXPECT_EQ(text_of(html), source);
  expect_balanced(html);
  for (const char* piece : {"<span class=\"k\">__global__</span>", "<span class=\"d\">#line", "<span class=\"c\">// "})
    EXPECT_NE(html.find(piece), std::string::npos) << piece;
}

TEST(Page, HighlightsUnfinishedSource) {
  for (const char* source : {"/* open", "\"open", "'\\", "#", "", "x /", "0x1.8p3f"})
    EXPECT_EQ(text_of(highlighted(source)), source);
}

TEST(Page, ChartsScaleWithTheLargestValue) {
  const std::string bars = bar_chart({{"1", "first", 10, 1, "winner"}, {"2", "second", 5, 0, ""}}, "us");
  // 790 units of width for 11: the value and its spread.
  EXPECT_NE(bars.find("class=\"bar winner\" x=\"90.0\" y=\"8.0\" width=\"718.2\""), std::string::npos) << bars;
  EXPECT_NE(bars.find("width=\"359.1\""), std::string::npos) << bars;
  expect_balanced(bars);
  EXPECT_EQ(bar_chart({}, "us"), "");

  const std::string points = point_chart({{256, 100, "a", false}, {1024, 200, "b", true}}, "n_cols", "GB/s");
  EXPECT_NE(points.find("class=\"point winner\" cx=\"880.0\" cy=\"24.0\""), std::string::npos) << points;
  expect_balanced(points);
}

TEST(Page, ShowsTheTuning) {
  const std::string page = html(example());
  expect_balanced(page.substr(page.find("</style>")).insert(0, "<style>").insert(0, "<head>").insert(0, "<html>"));
  const std::string text = text_of(page.substr(page.find("</style>")));
  for (const char* part :
       {"softmax, n_cols 1024", "2.00 us, median absolute deviation 0.10 us", "1.50x as fast",
        "2000 GB/s, 50.0 % of a copy of about as many bytes (4000 GB/s)", "1 wrong", "y[0,0] is 1 & not \"2\"",
        "variant=<cluster>", "registers", "__global__ void k(int* x) { *x = 1 < 2; }  // <comment>", "GB/s over n_cols"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  for (const char* outside : {"http:", "https:", "<script", "<link", "src="})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(Page, ShowsWhatDisturbedTheTuning) {
  TuningPage page = example();
  EXPECT_EQ(text_of(html(page)).find("disturbed"), std::string::npos);
  page.record.provenance["disturbed"] = "clocks fell from 1980 to 1620 MHz: power cap";
  page.record.provenance["drift"] = "+12%";
  page.record.provenance["repeats"] = "2";
  EXPECT_NE(text_of(html(page))
                .find("clocks fell from 1980 to 1620 MHz: power cap; times changed by +12%; the final was measured "
                      "again 2 times"),
            std::string::npos);
}

TEST(Page, ShowsTheShareOfTheTensorCores) {
  TuningPage page = example();
  page.record.key.op = "attention";
  page.record.key.device_class = "NVIDIA H200;sm_90a;sm=132;l2=60MiB";
  page.record.problem = "attention seq_q=4096,head_dim=128,dtype=bf16,layout=bshd";
  page.record.provenance = {{"sm_clock_khz", "1980000"}};
  page.record.median_us = 100;
  page.cost.flops = 53.5e9;
  const std::string expected = "535.0 TFLOP/s, 50.0 % of the tensor cores at 1980 MHz (1071 TFLOP/s), 40 GB/s";
  EXPECT_NE(text_of(html(page)).find(expected), std::string::npos) << text_of(html(page)).substr(0, 3000);
  // Nothing is said where the peak is not known.
  const auto without = [](TuningPage other) {
    const std::string text = text_of(html(other));
    EXPECT_NE(text.find("535.0 TFLOP/s, 40 GB/s"), std::string::npos);
    EXPECT_EQ(text.find("tensor cores"), std::string::npos);
  };
  TuningPage other = page;
  other.record.provenance.clear();
  without(other);
  other = page;
  other.record.key.device_class = "NVIDIA L40S;sm_89;sm=142;l2=96MiB";
  without(other);
  other = page;
  other.record.problem = "attention seq_q=4096,head_dim=128,dtype=f32,layout=bshd";
  without(other);
}

TEST(Page, SaysWhatItLacks) {
  TuningPage page = example();
  page.trials.clear();
  page.related.resize(1);
  page.no_source = page.no_resources = "no <compiler>";
  const std::string text = text_of(html(page));
  for (const char* part : {"no trials of this record", "no other record", "no <compiler>"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace tunesmith::cli
