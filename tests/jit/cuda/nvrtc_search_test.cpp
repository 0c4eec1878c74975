// Finds NVRTC in made-up folders, and identifies its build, without opening it.

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "jit/cuda/build_id.h"
#include "jit/cuda/library_search.h"
#include "tests/jit/cuda/nvrtc_fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

void touch(const fs::path& file, const std::string& text = "x") {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

void put_nvrtc(const fs::path& folder, int major, int minor) {
  touch(folder / ("libnvrtc.so." + std::to_string(major)), "nvrtc" + std::to_string(major) + std::to_string(minor));
  touch(folder / ("libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor)));
}

class NvrtcSearch : public testing::Test {
 protected:
  NvrtcSearch() { folders_.root = root_.path(); }
  fs::path below(const char* path) const { return root_.path() / path; }

  TemporaryFolder root_;
  CudaFolders folders_;
};

TEST_F(NvrtcSearch, ListsEveryPlaceInOrderIfNothingIsFound) {
  folders_.given = {below("mine")};
  folders_.toolkits = {below("opt/cuda")};
  folders_.loader = {below("ld")};
  folders_.wheels = {below("venv")};
  const NvrtcLocation location = find_nvrtc(folders_);
  EXPECT_FALSE(location.found());
  const std::string tried = join(location.tried);
  std::size_t at = 0;
  for (const char* place : {"/mine", "/opt/cuda", "/usr/local/cuda*", "/ld", "/usr/lib64", "/venv"}) {
    const std::size_t found = tried.find(root_.path().string() + place, at);
    ASSERT_NE(found, std::string::npos) << place << " not in order in " << tried;
    at = found;
  }
  EXPECT_EQ(nvrtc_identity(location), "nvrtc none");
}

TEST_F(NvrtcSearch, EarlierPlacesTakePrecedence) {
  // From the last place to the first: each added library takes precedence over those before.
  folders_.wheels = {below("venv")};
  put_nvrtc(below("venv/lib/python3.11/site-packages/nvidia/cu13/lib"), 13, 0);
  EXPECT_EQ(find_nvrtc(folders_).library, below("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13"));
  EXPECT_EQ(find_nvrtc(folders_).found_in, "wheel");

  put_nvrtc(below("usr/lib64"), 13, 0);
  EXPECT_EQ(find_nvrtc(folders_).library, below("usr/lib64/libnvrtc.so.13"));
  EXPECT_EQ(find_nvrtc(folders_).found_in, "system");

  folders_.loader = {below("ld")};
  put_nvrtc(below("ld"), 13, 1);
  EXPECT_EQ(find_nvrtc(folders_).library, below("ld/libnvrtc.so.13"));
  EXPECT_EQ(find_nvrtc(folders_).minor, 1);

  put_nvrtc(below("usr/local/cuda/lib64"), 13, 0);
  EXPECT_EQ(find_nvrtc(folders_).library, below("usr/local/cuda/lib64/libnvrtc.so.13"));

  folders_.toolkits = {below("opt/cuda")};
  put_nvrtc(below("opt/cuda/lib64"), 13, 2);
  EXPECT_EQ(find_nvrtc(folders_).library, below("opt/cuda/lib64/libnvrtc.so.13"));

  folders_.given = {below("mine")};
  put_nvrtc(below("mine"), 12, 4);
  const NvrtcLocation location = find_nvrtc(folders_);
  EXPECT_EQ(location.library, below("mine/libnvrtc.so.12")) << "the user's folder wins, regardless of the version";
  EXPECT_EQ(location.builtins, below("mine/libnvrtc-builtins.so.12.4"));
  EXPECT_EQ(location.major, 12);
  EXPECT_EQ(location.minor, 4);
  EXPECT_EQ(location.found_in, "given folder");
  EXPECT_EQ(location.tried, std::vector{below("mine").string()});
}

TEST_F(NvrtcSearch, NewestToolkitFirstAndVersionThirteenBeforeTwelve) {
  put_nvrtc(below("usr/local/cuda-9.2/lib64"), 13,
            9);  // does not exist in reality; as a string, its name sorts after "cuda-13.0"
  put_nvrtc(below("usr/local/cuda-13.0/lib64"), 13, 0);
  put_nvrtc(below("usr/local/cuda-13.2/targets/x86_64-linux/lib"), 13, 2);
  put_nvrtc(below("usr/local/cuda-13.2/targets/sbsa-linux/lib"), 13, 2);
  EXPECT_EQ(find_nvrtc(folders_).minor, 2);
  fs::remove_all(below("usr/local/cuda-13.2"));
  EXPECT_EQ(find_nvrtc(folders_).library, below("usr/local/cuda-13.0/lib64/libnvrtc.so.13"));

  fs::remove_all(below("usr/local"));
  put_nvrtc(below("usr/local/cuda-12.9/lib64"), 12, 9);
  EXPECT_EQ(find_nvrtc(folders_).major, 12);
  put_nvrtc(below("usr/lib64"), 13, 0);
  EXPECT_EQ(find_nvrtc(folders_).major, 13);
}

TEST_F(NvrtcSearch, SearchesTheLayoutsOfWheels) {
  for (const char* layout : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "lib/python3.12/site-packages/nvidia/cu13/lib",
                             "lib/python3/dist-packages/nvidia/cuda_nvrtc/lib", "lib", ""}) {
    const TemporaryFolder folder;
    put_nvrtc(folder.path() / layout, 13, 0);
    CudaFolders folders;
    folders.root = root_.path();
    folders.given = {folder.path()};
    EXPECT_EQ(find_nvrtc(folders).library, folder.path() / layout / "libnvrtc.so.13");
  }
}

TEST_F(NvrtcSearch, FindsBuiltinsInTheFolderOfTheRealFile) {
  put_nvrtc(below("real"), 13, 0);
  fs::create_directories(below("links"));
  fs::create_symlink(below("real/libnvrtc.so.13"), below("links/libnvrtc.so.13"));
  folders_.given = {below("links")};
  EXPECT_EQ(find_nvrtc(folders_).builtins.filename(), "libnvrtc-builtins.so.13.0");
}

TEST_F(NvrtcSearch, IdentityDistinguishesBuilds) {
  put_nvrtc(below("a"), 13, 0);
  put_nvrtc(below("b"), 13, 0);
  touch(below("b/libnvrtc.so.13"), "another build");
  folders_.given = {below("a")};
  const std::string a = nvrtc_identity(find_nvrtc(folders_));
  folders_.given = {below("b")};
  const std::string b = nvrtc_identity(find_nvrtc(folders_));
  EXPECT_NE(a, b);
  EXPECT_NE(a.find(" libnvrtc=size="), std::string::npos) << a;
  EXPECT_NE(a.find(" libnvrtc-builtins=size="), std::string::npos) << a;
  EXPECT_EQ(a.find(root_.path().string()), std::string::npos) << "the same build elsewhere is the same toolchain: " << a;
}

// Makes an ELF file with a property note before its build-id note, like a linker.
std::string elf_with_build_id(const std::string& id) {
  const auto note = [](std::uint32_t type, std::string name, std::string value) {
    Elf64_Nhdr header{static_cast<Elf64_Word>(name.size()), static_cast<Elf64_Word>(value.size()), type};
    name.resize((name.size() + 3) & ~std::size_t{3});
    value.resize((value.size() + 3) & ~std::size_t{3});
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + name + value;
  };
  const std::string notes =
      note(5, std::string("GNU\0", 4), "property") + note(NT_GNU_BUILD_ID, std::string("GNU\0", 4), id);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  Elf64_Phdr segments[2] = {};
  segments[0].p_type = PT_LOAD;
  segments[1].p_type = PT_NOTE;
  segments[1].p_offset = sizeof header + sizeof segments;
  segments[1].p_filesz = notes.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         std::string(reinterpret_cast<const char*>(segments), sizeof segments) + notes;
}

TEST_F(NvrtcSearch, ReadsTheBuildIdFromTheNotes) {
  touch(below("lib.so"), elf_with_build_id(std::string("\x01\xab\xff\x00\x10", 5)));
  EXPECT_EQ(build_id(below("lib.so")), "01abff0010");
}

TEST_F(NvrtcSearch, BuildIdOfDamagedFilesIsSizeAndHash) {
  const std::string whole = elf_with_build_id("12345678901234567890");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    touch(below("cut.so"), whole.substr(0, bytes));
    EXPECT_TRUE(build_id(below("cut.so")).starts_with("size=" + std::to_string(bytes) + ",head=")) << bytes;
  }
  EXPECT_EQ(build_id(below("none.so")), "");
}

TEST_F(NvrtcSearch, FindsAndIdentifiesQuickly) {
  // The layout of a toolkit. The test uses the median because other programs run at the same time.
  put_nvrtc(below("usr/local/cuda-13.0/lib64"), 13, 0);
  std::vector<double> times_us;
  for (int i = 0; i < 31; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NE(nvrtc_identity(find_nvrtc(folders_)), "nvrtc none");
    times_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times_us.begin(), times_us.begin() + 15, times_us.end());
  EXPECT_LT(times_us[15], 5000) << "the target is 500 us; ten times that is a defect on any machine";
}

}  // namespace
}  // namespace tunesmith
