// Wrong usage: exit code 2, one line that names what was wrong and what would be right, nothing on stdout, nothing written.

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

TEST_F(CliTest, NearestNamesAreSuggested) {
  expect_refused({}, {"needs a command", "run, source, tune, prewarm, cache, ops, doctor"});
  expect_refused({"rnu"}, {"no command 'rnu'", "did you mean 'run'"});
  expect_refused({"cache"}, {"needs a command", "verify"});
  expect_refused({"cache", "lst"}, {"no command 'lst'", "did you mean 'list'"});
  expect_refused({"run", "softmax", "--row", "4", "--cols", "8"}, {"no flag --row", "did you mean '--rows'"});
  expect_refused({"run", "softmax", "--coils=8"}, {"no flag --coils", "did you mean '--cols'", "run softmax --help"});
  expect_refused({"run", "cross_entropy", "--rows", "4", "--label-smooting", "0.1"},
                 {"run cross_entropy has no flag --label-smooting", "did you mean '--label-smoothing'"});
  expect_refused({"tune", "softmax", "--label_smoothing", "0.1"}, {"tune softmax has no flag --label_smoothing"});
  expect_refused({"run", "softmax", "again", "--rows", "4"}, {"unexpected argument 'again'"});
  expect_refused({"run", "sofmax", "--rows", "4", "--cols", "8"}, {"no operation 'sofmax'", "did you mean 'softmax'"});
  expect_refused({"run"}, {"run needs an operation: softmax, log_softmax", "attention"});
  expect_refused({"run", "--device", "host", "softmax"}, {"flags follow the operation", "run OP --device"});
  expect_refused({"run", "softmax", "--rows"}, {"--rows needs a value"});
  expect_refused({"run", "softmax", "--option", "colz=4"}, {"no option 'colz'", "did you mean 'cols'", "Allowed: rows"});
  expect_refused({"run", "attention", "--seq-q", "8", "--head-dim", "8", "--causal", "topleft"},
                 {"causal is 'topleft'; allowed: none, top-left, bottom-right; did you mean 'top-left'?"});
  expect_refused({"cache", "list", "--op", "atention"}, {"op is 'atention'", "did you mean 'attention'"});
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, WrongProblemsAreRefused) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", "softmax", "--device", "host"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_refused(with({"--cols", "8"}), {"rows is missing"});
  expect_refused(with({"--rows", "-1", "--cols", "8"}), {"rows is -1", "allowed: 0 to"});
  expect_refused(with({"--rows", "4", "--cols", "0"}), {"cols is 0", "allowed: 1 to"});
  expect_refused(with({"--rows", "4", "--cols", "many"}), {"cols is 'many'", "expected an integer"});
  expect_refused(with({"--rows", "1e3", "--cols", "8"}), {"rows is '1000'", "expected an integer"});
  expect_refused(with({"--rows", "99999999999999999999", "--cols", "8"}), {"rows is 99999999999999999999", "64 bits"});
  expect_refused(with({"--rows", "9000000000000000000", "--cols", "2000000000"}),
                 {"rows is 9000000000000000000", "2^56 bytes"});
  expect_refused(with({"--rows", "4", "--cols", "8", "--dtype", "f64"}), {"dtype is 'f64'", "f32", "f16", "bf16"});
  expect_refused(with({"--rows", "4", "--cols", "8", "--x-row-stride", "7"}), {"x_row_stride is 7", "at least cols, 8"});
  expect_refused(with({"--rows", "4", "--cols", "8", "--option", "rows=4"}),
                 {"rows is given twice", "--rows or --option rows=VALUE"});
  expect_refused(with({"--rows", "4", "--cols", "8", "--option", "rows"}), {"--option is 'rows'", "NAME=VALUE"});
  expect_refused(with({"--rows", "4", "--cols", "8", "--option", "in_place=2"}), {"in_place is 2", "0 to 1"});
  expect_refused(with({"--rows", "4", "--cols", "8", "--rows", "5"}), {"--rows is given more than once"});
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, WrongOptionsAreRefused) {
  const auto with = [](std::vector<std::string> options, const char* op = "softmax") {
    std::vector<std::string> arguments{"run", op, "--device", "host", "--rows", "4", "--cols", "8"};
    for (std::string& option : options) arguments.insert(arguments.end(), {"--option", std::move(option)});
    return arguments;
  };
  expect_refused(with({"scael=2"}),
                 {"softmax has no option 'scael'", "did you mean 'scale'", "Allowed: rows", "mask_inner"});
  expect_refused(with({"temperature=2"}), {"softmax has no option 'temperature'; allowed: rows"});
  expect_refused(with({"scale=2", "scale=3"}), {"scale is given twice"});
  expect_refused(with({"scale=0"}), {"scale is 0", "allowed: 1e-30 to 1e+30"});
  expect_refused(with({"scale=large"}), {"scale is 'large'"});
  expect_refused(with({"scale="}), {"--option is 'scale='", "NAME=VALUE"});
  expect_refused(with({"causal=yes"}), {"causal is 'yes'"});
  expect_refused(with({"mask=kep"}), {"mask is 'kep'", "none, add, keep"});
  expect_refused(with({"mask_inner=2"}), {"mask_inner is 2", "mask is none"});
  expect_refused(with({"mask=add"}, "softmax_backward"), {"mask is 'add'", "none, keep"});
  expect_refused({"run", "softmax", "--rows", "4", "--cols", "8", "--scale", "2", "--option", "scale=2"},
                 {"scale is given twice", "--scale or --option scale=VALUE"});
  expect_refused({"run", "softmax_backward", "--rows", "4", "--cols", "8", "--x-row-stride", "9"},
                 {"run softmax_backward has no flag --x-row-stride", "did you mean '--dx-row-stride'"});
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, ProblemsBeyondMemoryAreRefusedNotTried) {
  expect_refused({"run", "softmax", "--device", "host", "--rows", "1000000000", "--cols", "1000000"}, {"of memory", "take"},
                 1);
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, WrongSettingsAreRefused) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", "softmax", "--rows", "4", "--cols", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_refused(with({"--device", "gpu"}), {"device is 'gpu'", "auto, cuda, cuda:N", "host"});
  expect_refused(with({"--device", "cuda:x"}), {"device is 'cuda:x'"});
  expect_refused(with({"--device", "host", "--mode", "always"}), {"always", "tune", "replay", "off"});
  expect_refused(with({"--device", "host", "--config", "thread=4"}), {"thread"});
  expect_refused(with({"--device", "host", "--config", "threads"}), {"--config", "threads", "NAME=VALUE"});
  expect_refused(with({"--device", "host", "--config", "threads=33"}), {"threads is '33'", "power of two"});
  expect_refused(with({"--device", "host", "--config", "variant=best"}),
                 {"variant is 'best'", "warp, block, hybrid, cluster", "online"});
  expect_refused(with({"--device", "host", "--config", "threads=64", "--config", "threads=32"}), {"threads", "twice"});
  expect_refused(with({"--device", "host", "--cache", folder_.string()}), {"--cache", "folder"});
  expect_refused(with({"--device", "host", "--seed", "x"}), {"--seed is 'x'; allowed: 0 to "});
  expect_refused(with({"--device", "host", "--seed", "-3"}), {"--seed is '-3'; allowed: 0 to "});
  expect_refused({"source", "softmax", "--rows", "4", "--cols", "8", "--arch", "hopper"}, {"hopper", "sm_90a"});
  expect_refused({"source", "softmax", "--rows", "4", "--cols", "8", "--ptx", "--resources"}, {"--ptx", "--resources"});
  expect_refused({"tune", "softmax", "--rows", "4", "--cols", "8", "--budget", "soon"}, {"--budget is 'soon'", "500ms"});
  expect_refused({"tune", "softmax", "--rows", "4", "--cols", "8", "--effort", "some"}, {"some", "quick", "full"});
  environment["TUNESMITH_MODE"] = "always";
  expect_refused(with({"--device", "host"}), {"TUNESMITH_MODE is 'always'", "tune, replay or off"});
  environment.clear();
  environment["TUNESMITH_TEMPLATES"] = path("none");
  expect_refused(with({"--device", "host"}), {"TUNESMITH_TEMPLATES", path("none")});
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tunesmith::cli
