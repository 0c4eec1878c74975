// tunesmith report and tunesmith cache report, on a cache with a tuned record and its trials.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "api/engine/parts.h"
#include "cache/cache.h"
#include "tests/api/cli/process.h"
#include "tuner/select.h"

namespace tunesmith::cli {
namespace {

class ReportTest : public CliTest {
 protected:
  ReportTest() {
    const Op& op = find_op("softmax");
    const Problem problem = op.normalize({"softmax", {{"rows", std::int64_t{64}}, {"cols", std::int64_t{1024}}}});
    const ParsedProblemPtr parsed = op.parse(problem);
    const DeviceInfo device = generic_device(parse_arch("sm_90a"));
    CacheOptions options;
    options.file = cache_file();
    Cache cache(options);
    TuningRecord record;
    record.key = tuning_key(*parsed, device, TemplateSet::embedded());
    record.problem = problem.text();
    record.bytes = 4e6;
    record.effort = "quick";
    std::vector<Trial> trials;
    double time = 2;
    for (const Config& config : parsed->search_space(device, Effort::quick)) {
      trials.push_back({config.text(), "timed", time, 0.05, 20, ""});
      time *= 1.1;
    }
    trials.back() = {trials.back().config, "wrong", 0, 0, 0, "y[0,0] is 1, reference <2>"};
    record.config = trials.front().config;
    record.median_us = 2;
    record.mad_us = 0.05;
    record.default_median_us = 2.5;
    cache.store_record(record, trials);
  }
};

TEST_F(ReportTest, WritesAPageAboutAProblem) {
  const Outcome outcome = run({"report", "softmax", "--rows", "64", "--cols", "1024", "--html", path("page.html")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "wrote " + path("page.html") + "\n");
  const std::string page = read("page.html");
  for (const char* part : {"<!DOCTYPE html>", "softmax, n_cols 1024", "1 wrong", "reference &lt;2&gt;",
                           "class=\"bar winner\"", "2000 GB/s", "softmax_resident"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("asked for"), std::string::npos);
  EXPECT_EQ(page.find("was not compiled") == std::string::npos, has_nvrtc());
}

TEST_F(ReportTest, TheNearestRecordSaysWhatWasAskedFor) {
  const Outcome outcome = run({"report", "softmax", "--rows", "64", "--cols", "1028", "--html", path("page.html")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(read("page.html").find("<dt>asked for</dt><dd>rows=64, cols=1028, dtype=f32</dd>"), std::string::npos);
  const std::string nearest = "The cache has no record of softmax rows=64,cols=1028,dtype=f32; the nearest record:\n";
  EXPECT_TRUE(run({"report", "softmax", "--rows", "64", "--cols", "1028"}).out.starts_with(nearest));
  EXPECT_FALSE(run({"report", "softmax", "--rows", "64", "--cols", "1024"}).out.starts_with(nearest));
}

TEST_F(ReportTest, WithoutAPageItPrintsTheTrials) {
  const Outcome outcome = run({"report", "softmax", "--rows", "64", "--cols", "1024"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("median us  MAD us  samples"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" 2000 GB/s\n"), std::string::npos) << outcome.out;
}

TEST_F(ReportTest, AComputeBoundProblemHasTeraflops) {
  const Problem problem =
      find_op("attention").normalize({"attention", {{"seq_q", std::int64_t{4096}}, {"head_dim", std::int64_t{128}}}});
  const ParsedProblemPtr parsed = find_op("attention").parse(problem);
  CacheOptions options;
  options.file = cache_file();
  Cache cache(options);
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  TuningRecord record;
  record.key = tuning_key(*parsed, device, TemplateSet::embedded());
  record.problem = problem.text();
  record.config = parsed->default_config(device).text();
  record.bytes = parsed->cost().bytes();
  record.median_us = record.default_median_us = parsed->cost().flops * 1e-6 / 500;
  cache.store_record(record, {});
  const std::string out = run({"report", "attention", "--seq-q", "4096", "--head-dim", "128"}).out;
  EXPECT_NE(out.find(" 500.0 TFLOP/s, "), std::string::npos) << out;
}

TEST_F(ReportTest, CacheReportTakesTheNumberOfARecord) {
  EXPECT_EQ(run({"cache", "report", "1", "--html", path("page.html")}).code, 0);
  EXPECT_NE(read("page.html").find("softmax, n_cols 1024"), std::string::npos);
  expect_rejected({"cache", "report", "2", "--html", path("page.html")}, {"record is '2'", "1 to 1"});
}

TEST_F(ReportTest, AProblemWithoutARecordIsAnError) {
  expect_rejected({"report", "softmax", "--rows", "64", "--cols", "1024", "--dtype", "f16"},
                  {"the cache has no record of softmax rows=64,cols=1024,dtype=f16", "tunesmith tune"}, 1);
  expect_rejected({"report", "softmax", "--rows", "64", "--cols", "1024", "--html", path("no/page.html")},
                  {"cannot be written"}, 1);
}

/// The headless browser of Debian, or the whole one; empty if there is none.
std::string browser() {
  for (const char* program : {"chromium-headless-shell", "chromium"})
    if (std::system((std::string(program) + " --version > /dev/null 2>&1").c_str()) == 0) return program;
  return "";
}

// Where a browser is installed, it must show the page: headings, bars and the kernel, in both colour schemes.
TEST_F(ReportTest, ABrowserShowsThePage) {
  const std::string chromium = browser();
  if (chromium.empty()) GTEST_SKIP() << "no browser here: neither chromium-headless-shell nor chromium";
  ASSERT_EQ(run({"report", "softmax", "--rows", "64", "--cols", "1024", "--html", path("page.html")}).code, 0);
  // The browser's own layout tells whether the style sheet and the charts are valid.
  write("probe.html", read("page.html") +
                          "<script>const s = getComputedStyle(document.body), b = document.querySelector('.bar.winner');"
                          "document.title = [s.backgroundColor, s.color, getComputedStyle(b).fill,"
                          " b.getBoundingClientRect().width > 100, document.querySelectorAll('h2').length,"
                          " document.documentElement.scrollWidth <= innerWidth].join('|');</script>");
  for (const auto& [scheme, background] : {std::pair{"1", "rgb(255, 255, 255)"}, {"0", "rgb(22, 24, 28)"}}) {
    const std::string command =
        chromium + " --headless --no-sandbox --disable-gpu --window-size=1000,800 --user-data-dir=" + path("profile") +
        " --blink-settings=preferredColorScheme=" + scheme + " --dump-dom file://" + path("probe.html") + " > " +
        path("dom.html") + " 2> /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    const std::string dom = read("dom.html");
    const std::string title = dom.substr(dom.find("<title>") + 7, dom.find("</title>") - dom.find("<title>") - 7);
    EXPECT_TRUE(title.starts_with(background)) << title;
    EXPECT_TRUE(title.ends_with("|true|5|true")) << title;
  }
}

}  // namespace
}  // namespace tunesmith::cli
