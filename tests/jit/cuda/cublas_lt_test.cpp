// Finds and opens cuBLASLt without a GPU.

#include <gtest/gtest.h>

#include <fstream>

#include "jit/cuda/cublas_lt_library.h"
#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

void touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "x";
}

class CublasLtSearch : public testing::Test {
 protected:
  CublasLtSearch() { folders_.root = root_.path(); }
  fs::path below(const char* path) const { return root_.path() / path; }

  TemporaryFolder root_;
  CudaFolders folders_;
};

TEST_F(CublasLtSearch, SearchesWheelsToolkitsAndGivenFolders) {
  // From the last place to the first: each added library takes precedence over those before.
  const auto expect = [this](const char* library, const char* found_in) {
    const LibraryLocation location = find_cublas_lt(folders_, 13);
    EXPECT_EQ(location.library, below(library));
    EXPECT_EQ(location.found_in, found_in);
  };
  EXPECT_FALSE(find_cublas_lt(folders_, 13).found());
  folders_.wheels = {below("venv")};
  touch(below("venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12"));
  expect("venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12", "wheel");
  touch(below("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13"));
  expect("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13", "wheel");
  touch(below("usr/local/cuda-13.0/lib64/libcublasLt.so.13"));
  expect("usr/local/cuda-13.0/lib64/libcublasLt.so.13", "toolkit");
  folders_.given = {below("mine")};
  touch(below("mine/nvidia/cu13/lib/libcublasLt.so.13"));
  expect("mine/nvidia/cu13/lib/libcublasLt.so.13", "given folder");
}

TEST_F(CublasLtSearch, SkipsALibraryNewerThanTheDriver) {
  touch(below("usr/local/cuda-13.0/lib64/libcublasLt.so.13"));
  EXPECT_FALSE(find_cublas_lt(folders_, 12).found());
  touch(below("usr/local/cuda-12.9/lib64/libcublasLt.so.12"));
  EXPECT_EQ(find_cublas_lt(folders_, 12).major, 12);
  EXPECT_EQ(find_cublas_lt(folders_, 13).major, 13);
  EXPECT_FALSE(find_cublas_lt(folders_, 11).found());
}

template <typename Body>
void expect_not_found(const Body& body, const std::string& words) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(CublasLtSearch, ErrorNamesALibraryThatCannotBeOpened) {
  touch(below("mine/libcublasLt.so.13"));
  folders_.given = {below("mine")};
  expect_not_found([&] { CublasLtLibrary(find_cublas_lt(folders_, 13), 13); },
                   "mine/libcublasLt.so.13 but cannot be opened");
}

TEST_F(CublasLtSearch, ErrorListsThePlacesTried) {
  expect_not_found([&] { CublasLtLibrary(find_cublas_lt(folders_, 11), 11); }, "usr/local/cuda*");
}

TEST(CublasLtLibrary, OpensAnInstalledLibrary) {
  const LibraryLocation location = find_cublas_lt({}, 13);
  if (!location.found()) GTEST_SKIP() << "no cuBLASLt here";
  const CublasLtLibrary library(location, 13);
  EXPECT_EQ(library.version().substr(0, 3), std::to_string(location.major) + ".");
  EXPECT_NO_THROW(library.check(cublas_lt::success, "cublasLtMatmul", "multiplying"));
  try {
    library.check(cublas_lt::not_supported, "cublasLtMatmul", "multiplying");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_STREQ(error.what(), "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED while multiplying");
  }
}

}  // namespace
}  // namespace tunesmith
