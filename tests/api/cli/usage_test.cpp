// Wrong usage: exit code 2, one line that names what was wrong and what would be right, nothing on stdout, nothing written.

#include <sys/stat.h>

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

TEST_F(CliTest, NearestNamesAreSuggested) {
  expect_rejected({}, {"needs a command", "run, source, tune, prewarm, work, report, cache, ops, doctor"});
  expect_rejected({"rnu"}, {"no command 'rnu'", "did you mean 'run'"});
  expect_rejected({"cache"}, {"needs a command", "verify"});
  expect_rejected({"cache", "lst"}, {"no command 'lst'", "did you mean 'list'"});
  expect_rejected({"run", "softmax", "--row", "4", "--cols", "8"}, {"no flag --row", "did you mean '--rows'"});
  expect_rejected({"run", "softmax", "--coils=8"}, {"no flag --coils", "did you mean '--cols'", "run softmax --help"});
  expect_rejected({"run", "cross_entropy", "--rows", "4", "--label-smooting", "0.1"},
                  {"run cross_entropy has no flag --label-smooting", "did you mean '--label-smoothing'"});
  expect_rejected({"tune", "softmax", "--label_smoothing", "0.1"}, {"tune softmax has no flag --label_smoothing"});
  expect_rejected({"run", "softmax", "again", "--rows", "4"}, {"unexpected argument 'again'"});
  expect_rejected({"run", "sofmax", "--rows", "4", "--cols", "8"}, {"no operation 'sofmax'", "did you mean 'softmax'"});
  expect_rejected({"run"}, {"run needs an operation: softmax, log_softmax", "attention"});
  expect_rejected({"run", "--device", "host", "softmax"}, {"flags follow the operation", "run OP --device"});
  expect_rejected({"run", "softmax", "--rows"}, {"--rows needs a value"});
  expect_rejected({"run", "softmax", "--option", "colz=4"}, {"no option 'colz'", "did you mean 'cols'", "Allowed: rows"});
  expect_rejected({"run", "attention", "--seq-q", "8", "--head-dim", "8", "--causal", "topleft"},
                  {"causal is 'topleft'; allowed: none, top-left, bottom-right; did you mean 'top-left'?"});
  expect_rejected({"run", "layer_nrm"}, {"has no operation 'layer_nrm'; did you mean 'layer_norm'? Allowed: softmax, ",
                                         "and shipped row programs such as layer_norm"});
  expect_rejected({"cache", "list", "--op", "atention"}, {"op is 'atention'", "did you mean 'attention'"});
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, WrongProblemsAreRejected) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", "softmax", "--device", "host"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_rejected(with({"--cols", "8"}), {"rows is missing"});
  expect_rejected(with({"--rows", "-1", "--cols", "8"}), {"rows is -1", "allowed: at least 0"});
  expect_rejected(with({"--rows", "4", "--cols", "-1"}), {"cols is -1", "allowed: 0 to"});
  for (const char* op : {"cross_entropy", "cross_entropy_shard", "soft_cross_entropy"})
    expect_rejected({"run", op, "--device", "host", "--rows", "4", "--cols", "0"}, {"cols is 0", "allowed: 1 to"});
  expect_rejected({"run", "rms_norm", "--device", "host", "--rows", "4", "--cols", "0", "--rstd"},
                  {"cols is 0 and rstd is 1", "rstd=0"});
  expect_rejected(with({"--rows", "4", "--cols", "many"}), {"cols is 'many'", "expected an integer"});
  expect_rejected(with({"--rows", "1e3", "--cols", "8"}), {"rows is '1000'", "expected an integer"});
  expect_rejected(with({"--rows", "99999999999999999999", "--cols", "8"}), {"rows is 99999999999999999999", "64 bits"});
  expect_rejected(with({"--rows", "9000000000000000000", "--cols", "2000000000"}),
                  {"rows is 9000000000000000000", "2^56 bytes"});
  expect_rejected(with({"--rows", "4", "--cols", "8", "--dtype", "f128"}), {"dtype is 'f128'", "f32", "f16", "bf16"});
  expect_rejected(with({"--rows", "4", "--cols", "8", "--x-row-stride", "7"}),
                  {"x_row_stride is 7", "allowed: 0, or at least 8"});
  expect_rejected(with({"--rows", "4", "--cols", "8", "--option", "rows=4"}),
                  {"rows is given twice", "--rows or --option rows=VALUE"});
  expect_rejected(with({"--rows", "4", "--cols", "8", "--option", "rows"}), {"--option is 'rows'", "NAME=VALUE"});
  expect_rejected(with({"--rows", "4", "--cols", "8", "--option", "in_place=2"}), {"in_place is 2", "0 to 1"});
  expect_rejected(with({"--rows", "4", "--cols", "8", "--rows", "5"}), {"--rows is given more than once"});
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, WrongOptionsAreRejected) {
  const auto with = [](std::vector<std::string> options, const char* op = "softmax") {
    std::vector<std::string> arguments{"run", op, "--device", "host", "--rows", "4", "--cols", "8"};
    for (std::string& option : options) arguments.insert(arguments.end(), {"--option", std::move(option)});
    return arguments;
  };
  expect_rejected(with({"scael=2"}),
                  {"softmax has no option 'scael'", "did you mean 'scale'", "Allowed: rows", "mask_inner"});
  expect_rejected(with({"temperature=2"}), {"softmax has no option 'temperature'; allowed: rows"});
  expect_rejected(with({"scale=2", "scale=3"}), {"scale is given twice"});
  expect_rejected(with({"scale=0"}), {"scale is 0", "allowed: 1e-30 to 1e+30"});
  expect_rejected(with({"scale=large"}), {"scale is 'large'"});
  expect_rejected(with({"scale="}), {"--option is 'scale='", "NAME=VALUE"});
  expect_rejected(with({"causal=yes"}), {"causal is 'yes'"});
  expect_rejected(with({"mask=kep"}), {"mask is 'kep'", "none, add, keep"});
  expect_rejected(with({"mask_inner=2"}), {"mask_inner is 2", "only with mask=add or mask=keep"});
  expect_rejected(with({"mask=add"}, "softmax_backward"), {"mask is 'add'", "none, keep"});
  expect_rejected({"run", "softmax", "--rows", "4", "--cols", "8", "--scale", "2", "--option", "scale=2"},
                  {"scale is given twice", "--scale or --option scale=VALUE"});
  expect_rejected({"run", "softmax_backward", "--rows", "4", "--cols", "8", "--x-row-stride", "9"},
                  {"run softmax_backward has no flag --x-row-stride",
                   "did you mean '--y-row-stride'? (see tunesmith run softmax_backward --help)"});
  EXPECT_TRUE(files().empty());
}

TEST_F(CliTest, ProblemsBeyondMemoryAreRejectedNotTried) {
  expect_rejected({"run", "softmax", "--device", "host", "--rows", "1000000000", "--cols", "1000000"}, {"of memory", "take"},
                  1);
  EXPECT_TRUE(files().empty());
}

// A damaged cache is moved aside; a file that --cache names by mistake must stay.
TEST_F(CliTest, ATextFileIsNoCache) {
  const std::string spec = write("problems.json", "{\"problems\": []}\n");
  expect_rejected({"run", "softmax", "--rows", "4", "--cols", "8", "--device", "host", "--cache", spec},
                  {"--cache is '" + spec + "'; expected a cache file, this is a text file"});
  expect_rejected({"cache", "list", "--cache", spec}, {"this is a text file"});
  EXPECT_EQ(files(), std::vector<std::string>{"problems.json"});
  const std::string pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Outcome kept_in_memory = run({"cache", "list", "--cache", pipe});  // and does not wait for a writer
  EXPECT_NE(kept_in_memory.err.find("is not a regular file"), std::string::npos) << kept_in_memory.err;
  const std::string damaged = write("damaged.db", std::string(100, '\0') + "SQLite");
  EXPECT_EQ(run({"cache", "list", "--cache", damaged}).code, 0);
}

TEST_F(CliTest, WrongSettingsAreRejected) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", "softmax", "--rows", "4", "--cols", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_rejected(with({"--device", "gpu"}), {"device is 'gpu'", "auto, cuda, cuda:N", "host"});
  expect_rejected(with({"--device", "cuda:x"}), {"device is 'cuda:x'"});
  expect_rejected(with({"--device", "host", "--mode", "always"}), {"always", "tune", "replay", "off"});
  expect_rejected(with({"--device", "host", "--config", "thread=4"}), {"thread"});
  expect_rejected(with({"--device", "host", "--config", "threads"}), {"--config", "threads", "NAME=VALUE"});
  expect_rejected(with({"--device", "host", "--config", "threads=33"}), {"threads is 33", "power of two"});
  expect_rejected(with({"--device", "host", "--config", "variant=best"}),
                  {"variant is 'best'", "warp, block, hybrid, cluster", "two_pass"});
  expect_rejected(with({"--device", "host", "--config", "threads=64", "--config", "threads=32"}), {"threads", "twice"});
  expect_rejected(with({"--device", "host", "--cache", folder_.string()}), {"--cache", "folder"});
  expect_rejected({"run", "softmax", "--rows", "", "--cols", "8"}, {"rows is ''; expected an integer"});
  expect_rejected({"run", "softmax", "--rows", "-", "--cols", "8"}, {"rows is '-'; expected an integer"});
  expect_rejected({"run", "cross_entropy", "--rows", "4", "--cols", "8", "--device", "host", "--output", "loss=a.npy",
                   "--output", "lse=./a.npy"},
                  {"--output writes loss and lse to './a.npy'; expected a file for each array"});
  expect_rejected(with({"--device", "host", "--seed", "x"}), {"--seed is 'x'; allowed: 0 to "});
  expect_rejected(with({"--device", "host", "--seed", "-3"}), {"--seed is '-3'; allowed: 0 to "});
  expect_rejected({"source", "softmax", "--rows", "4", "--cols", "8", "--arch", "hopper"}, {"hopper", "sm_90a"});
  expect_rejected({"source", "softmax", "--rows", "4", "--cols", "8", "--ptx", "--resources"}, {"--ptx", "--resources"});
  expect_rejected({"tune", "softmax", "--rows", "4", "--cols", "8", "--budget", "soon"}, {"--budget is 'soon'", "500ms"});
  expect_rejected({"tune", "softmax", "--rows", "4", "--cols", "8", "--effort", "some"}, {"some", "quick", "full"});
  expect_rejected({"tune", "softmax", "--rows", "4", "--cols", "8,"}, {"cols is '8,', a list with an empty value"});
  expect_rejected({"tune", "softmax", "--rows", "4", "--cols", "8", "--gpus", "all", "--device", "cuda:1"},
                  {"--gpus is given with --device"});
  expect_rejected(with({"--device", "host", "--option", "inner=1,2"}), {"inner is '1,2'"});
  environment["TUNESMITH_MODE"] = "always";
  expect_rejected(with({"--device", "host"}), {"TUNESMITH_MODE is 'always'", "tune, later, replay or off"});
  environment.clear();
  environment["TUNESMITH_TEMPLATES"] = path("none");
  expect_rejected(with({"--device", "host"}), {"TUNESMITH_TEMPLATES", path("none")});
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tunesmith::cli
