// tunesmith doctor on simulated machines: scripted drivers and NVRTC libraries in folders of the loader's path.

#include <sys/stat.h>
#include <unistd.h>

#include "cache/connection.h"
#include "cache/schema.h"
#include "tests/api/cli/process.h"
#include "tunesmith/version.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

class DoctorTest : public CliTest {
 protected:
  DoctorTest() {
    fs::create_directories(path("driver"));
    environment["LD_LIBRARY_PATH"] = path("driver");
    environment["TUNESMITH_CUDA"] = path("cuda");
    environment["VIRTUAL_ENV"] = "";
    put_nvrtc("cuda", 13);
  }

  void put_driver(const char* library) const {
    fs::copy_file(library, path("driver/libcuda.so.1"), fs::copy_options::overwrite_existing);
  }
  void put_nvrtc(const std::string& folder, int major) const {
    fs::create_directories(path(folder));
    const std::string version = std::to_string(major);
    fs::copy_file(FAKE_LIBNVRTC, path(folder) + "/libnvrtc.so." + version);
    write(folder + "/libnvrtc-builtins.so." + version + ".0", "");
  }

  nlohmann::json report(int code = 0, std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), {"doctor", "--json"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
  /// Expects exactly one problem with these texts, in the table as well, and returns the report.
  nlohmann::json expect_problem(const std::string& what, const std::string& fix) const {
    nlohmann::json facts = report();
    EXPECT_EQ(facts["problems"].size(), 1U) << facts["problems"].dump(1);
    if (facts["problems"].empty()) return facts;
    const std::string found_what = facts["problems"][0]["what"], found_fix = facts["problems"][0]["fix"];
    EXPECT_NE(found_what.find(what), std::string::npos) << found_what;
    EXPECT_NE(found_fix.find(fix), std::string::npos) << found_fix;
    const std::string table = run({"doctor"}).out;
    EXPECT_NE(table.find(found_what), std::string::npos) << table;
    EXPECT_NE(table.find(found_fix), std::string::npos) << table;
    return facts;
  }
};

TEST_F(DoctorTest, SaysWhatItFoundAndChangesNothing) {
  put_driver(FAKE_LIBCUDA);
  environment["TUNESMITH_MODE"] = "replay";
  const nlohmann::json facts = report();
  EXPECT_EQ(facts["version"], TUNESMITH_VERSION);
  EXPECT_FALSE(facts["commit"].get<std::string>().empty());
  EXPECT_NE(facts["system"]["kernel"].get<std::string>().find("Linux"), std::string::npos);
  EXPECT_FALSE(facts["system"]["os"].get<std::string>().empty());
  EXPECT_EQ(facts["driver"]["cuda_version"], "13.0");
  EXPECT_EQ(facts["driver"]["gpus"].size(), 1U);
  EXPECT_EQ(facts["nvrtc"]["version"], "13.0");
  EXPECT_EQ(facts["nvrtc"]["path"], path("cuda/libnvrtc.so.13"));
  for (const nlohmann::json& other : facts["nvrtc"]["others"]) EXPECT_NE(other["path"], facts["nvrtc"]["path"]);
  EXPECT_EQ(facts["cache"]["file"], cache_file());
  EXPECT_EQ(facts["cache"]["healthy"], true);
  EXPECT_FALSE(facts["cache"]["sqlite_version"].get<std::string>().empty());
  EXPECT_EQ(facts["environment"]["TUNESMITH_MODE"], "replay");
  EXPECT_EQ(facts["can"]["run_on_gpu"], true);
  EXPECT_EQ(facts["problems"], nlohmann::json::array());
  for (const char* key : {"cublas_lt", "host_compiler", "shipped"}) EXPECT_TRUE(facts.contains(key)) << key;
  const Outcome table = run({"doctor"});
  EXPECT_EQ(table.code, 0);
  for (const char* text : {"tunesmith", "system", "driver", "GPU cuda:0", "NVRTC", "cuBLASLt", "host compiler", "SQLite",
                           "cache", "TUNESMITH_MODE=replay", "run kernels on a GPU", "problems"})
    EXPECT_NE(table.out.find(text), std::string::npos) << text;
  EXPECT_EQ(files(), (std::vector<std::string>{"cuda", "driver"}));
}

// ---- The driver

TEST_F(DoctorTest, DriverOfAnOldCuda) {
  put_driver(FAKE_LIBCUDA_OLD);
  environment["TUNESMITH_FAKE_VERSION"] = "11080";
  const nlohmann::json facts = expect_problem("is for CUDA 11.8; 12.0 or newer is needed", "driver 525 or newer");
  EXPECT_EQ(facts["driver"]["gpus"], nlohmann::json::array());
  EXPECT_EQ(facts["can"]["run_on_gpu"], false);
  EXPECT_EQ(facts["can"]["compile_for_gpu"], true);
}

TEST_F(DoctorTest, DriverThatLacksAFunction) {
  put_driver(FAKE_LIBCUDA_OLD);
  expect_problem("lacks cuLibraryLoadData", "newer NVIDIA driver");
}

TEST_F(DoctorTest, DriverWithoutAGpu) {
  put_driver(FAKE_LIBCUDA);
  environment["TUNESMITH_FAKE_INIT"] = "100";
  expect_problem("sees no GPU", "");
  environment["CUDA_VISIBLE_DEVICES"] = "-1";
  expect_problem("CUDA_VISIBLE_DEVICES is '-1'", "unset CUDA_VISIBLE_DEVICES");
  environment.erase("TUNESMITH_FAKE_INIT");
  environment["TUNESMITH_FAKE_GPUS"] = "0";
  expect_problem("CUDA_VISIBLE_DEVICES is '-1'", "unset CUDA_VISIBLE_DEVICES");
}

TEST_F(DoctorTest, DriverThatDoesNotStart) {
  put_driver(FAKE_LIBCUDA);
  environment["TUNESMITH_FAKE_INIT"] = "34";
  expect_problem("stub", path("driver"));
  environment["TUNESMITH_FAKE_INIT"] = "803";
  expect_problem("different versions", "");
  environment["TUNESMITH_FAKE_INIT"] = "999";
  expect_problem("does not start", "");
}

TEST_F(DoctorTest, DriverThatTheLoaderRejects) {
  write("driver/libcuda.so.1", "not a library");
  expect_problem("cannot be loaded", "");
}

// ---- NVRTC

TEST_F(DoctorTest, NoNvrtcForADriverOfCuda12) {
  put_driver(FAKE_LIBCUDA);
  fs::remove_all(path("cuda"));
  environment["TUNESMITH_FAKE_VERSION"] = "12040";
  const nlohmann::json facts = report();
  if (facts["nvrtc"]["found"] == true) GTEST_SKIP() << "NVRTC is in a standard place of this machine";
  expect_problem("there is no NVRTC", "pip install --target ~/nvrtc nvidia-cuda-nvrtc-cu12 && export TUNESMITH_CUDA=");
  EXPECT_EQ(facts["can"]["run_on_gpu"], false);
  environment["TUNESMITH_FAKE_VERSION"] = "13000";
  EXPECT_EQ(expect_problem("there is no NVRTC", "nvidia-cuda-nvrtc && ")["can"]["compile_for_gpu"], false);
}

TEST_F(DoctorTest, SeveralNvrtcs) {
  put_driver(FAKE_LIBCUDA);
  put_nvrtc("other", 12);
  environment["TUNESMITH_CUDA"] += ":" + path("other");
  nlohmann::json facts = report();
  EXPECT_EQ(facts["problems"], nlohmann::json::array());
  EXPECT_EQ(facts["nvrtc"]["path"], path("cuda/libnvrtc.so.13"));
  ASSERT_FALSE(facts["nvrtc"]["others"].empty());
  EXPECT_EQ(facts["nvrtc"]["others"][0]["path"], path("other/libnvrtc.so.12"));
  EXPECT_EQ(facts["nvrtc"]["others"][0]["version"], "12.0");
  EXPECT_NE(run({"doctor"}).out.find(path("other/libnvrtc.so.12")), std::string::npos);

  // The one in use does not suit the driver; the other does.
  environment["TUNESMITH_FAKE_VERSION"] = "12040";
  expect_problem("is newer than the driver, which is for CUDA 12.4", "export TUNESMITH_CUDA='" + path("other") + "'");
}

TEST_F(DoctorTest, NvrtcThatCannotBeOpened) {
  put_driver(FAKE_LIBCUDA);
  write("cuda/libnvrtc.so.13", "not a library");
  put_nvrtc("other", 12);
  environment["TUNESMITH_CUDA"] += ":" + path("other");
  expect_problem("cannot be used", "export TUNESMITH_CUDA='" + path("other") + "'");
}

TEST_F(DoctorTest, NvrtcWithoutItsBuiltins) {
  put_driver(FAKE_LIBCUDA);
  fs::remove(path("cuda/libnvrtc-builtins.so.13.0"));
  expect_problem("lacks libnvrtc-builtins.so.13.0", "");
}

// ---- The cache

TEST_F(DoctorTest, CacheOfALaterVersion) {
  put_driver(FAKE_LIBCUDA);
  {
    Connection connection = Connection::open_file(cache_file(), Connection::Access::create, 0);
    migrate(connection);
    connection.execute("PRAGMA user_version=99");
  }
  chmod(cache_file().c_str(), 0600);
  const std::string before = read("cache.db");
  const nlohmann::json facts = expect_problem("later version of tunesmith (schema 99", "export TUNESMITH_CACHE=");
  EXPECT_EQ(facts["cache"]["healthy"], false);
  EXPECT_EQ(facts["cache"]["schema"], 99);
  EXPECT_TRUE(read("cache.db") == before);
}

TEST_F(DoctorTest, CacheOfAnOlderVersionIsNoProblemAndStaysAsItIs) {
  put_driver(FAKE_LIBCUDA);
  {
    Connection connection = Connection::open_file(cache_file(), Connection::Access::create, 0);
    migrate(connection, migrations().first(1));
  }
  chmod(cache_file().c_str(), 0600);
  const std::string before = read("cache.db");
  const nlohmann::json facts = report();
  EXPECT_EQ(facts["problems"], nlohmann::json::array());
  EXPECT_EQ(facts["cache"]["schema"], 1);
  EXPECT_NE(run({"doctor"}).out.find("the next use migrates it"), std::string::npos);
  EXPECT_TRUE(read("cache.db") == before);
}

TEST_F(DoctorTest, CacheThatIsNoDatabaseIsNotMoved) {
  put_driver(FAKE_LIBCUDA);
  write("cache.db", "garbage that is longer than a header of a database would be " + std::string(4096, 'x'));
  expect_problem("is no cache: file is not a database", "moves it aside");
  EXPECT_EQ(files(), (std::vector<std::string>{"cache.db", "cuda", "driver"}));
}

TEST_F(DoctorTest, CacheOfAnotherProgram) {
  put_driver(FAKE_LIBCUDA);
  Connection::open_file(cache_file(), Connection::Access::create, 0).execute("CREATE TABLE notes (x)");
  expect_problem("is a database of another program", "export TUNESMITH_CACHE=");
}

TEST_F(DoctorTest, CacheOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  put_driver(FAKE_LIBCUDA);
  {
    Connection connection = Connection::open_file(cache_file(), Connection::Access::create, 0);
    migrate(connection);
  }
  ASSERT_EQ(chown(cache_file().c_str(), 12345, 12345), 0);
  expect_problem("belongs to user 12345", "chown");
}

TEST_F(DoctorTest, CacheThatOthersCanWrite) {
  put_driver(FAKE_LIBCUDA);
  {
    Connection connection = Connection::open_file(cache_file(), Connection::Access::create, 0);
    migrate(connection);
  }
  chmod(cache_file().c_str(), 0666);
  expect_problem("others can write " + cache_file(), "chmod go-w '" + cache_file() + "'");
}

TEST_F(DoctorTest, NoPlaceForTheCache) {
  put_driver(FAKE_LIBCUDA);
  environment["HOME"] = "";
  environment["TUNESMITH_CACHE"] = "";
  EXPECT_EQ(report()["problems"], nlohmann::json::array()) << "switched off on purpose";
  without.insert("TUNESMITH_CACHE");
  expect_problem("HOME is not set", "export TUNESMITH_CACHE=");
}

TEST_F(DoctorTest, SystemCacheThatIsNotThere) {
  put_driver(FAKE_LIBCUDA);
  environment["TUNESMITH_SYSTEM_CACHE"] = path("none.db");
  expect_problem("none.db is ignored: there is no such file", "tunesmith cache export");
}

// ---- Exit codes

TEST_F(DoctorTest, FailsWhereKernelsCannotRun) {
  environment["PATH"] = path("nothing");
  put_driver(FAKE_LIBCUDA);
  EXPECT_EQ(report(0, {"--device", "cuda"})["can"]["run_on_cpu"], false);
  report(0);
  report(1, {"--device", "host"});
  fs::remove_all(path("driver"));
  report(0);  // it compiles for GPUs elsewhere
  report(1, {"--device", "cuda"});
  fs::remove_all(path("cuda"));
  const nlohmann::json facts = report(1, {"--device", "host"});
  EXPECT_GE(facts["problems"].size(), 1U);
  if (facts["nvrtc"]["found"] == true) GTEST_SKIP() << "NVRTC is in a standard place of this machine";
  EXPECT_EQ(report(1)["problems"].size(), 2U) << "no NVRTC, no compiler";
}

}  // namespace
}  // namespace tunesmith::cli
