// .npy files: the header's grammar, and every way in which a file can be wrong.

#include "api/cli/input/npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(NpyHeader, ReadsWhatNumpyWrites) {
  const NpyHeader header = parse_npy_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n");
  EXPECT_EQ(header.type, NpyType::f4);
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(header.data_bytes(), 48);
}

TEST(NpyHeader, TakesAnyOrderEitherQuotesAndNoLastComma) {
  const NpyHeader header = parse_npy_dictionary(R"({"shape":(7,),"descr":"<i8",'fortran_order':False})");
  EXPECT_EQ(header.type, NpyType::i8);
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{7}));
  EXPECT_TRUE(parse_npy_dictionary("{'descr': '<u2', 'fortran_order': False, 'shape': ()}").shape.empty());
  EXPECT_EQ(
      parse_npy_dictionary("{'descr': '<f2', 'fortran_order': False, 'shape': (0, 9223372036854775807, 5)}").elements(), 0);
}

TEST(NpyHeader, IntegersAndBooleans) {
  const std::pair<const char*, NpyType> cases[] = {
      {"|u1", NpyType::u1}, {"|b1", NpyType::u1}, {"<i4", NpyType::i4}, {"<i8", NpyType::i8}, {"<f8", NpyType::f8}};
  for (const auto& [descr, type] : cases) {
    const NpyHeader header =
        parse_npy_dictionary("{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (3, 4), }");
    EXPECT_EQ(header.type, type) << descr;
    EXPECT_EQ(header.data_bytes(), 12 * size_of(type)) << descr;
  }
  EXPECT_NE(npy_header_text({NpyType::u1, {3}}).find("'descr': '|u1'"), std::string::npos);
}

TEST(NpyHeader, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4)}", "Fortran-ordered"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4)}", "big-endian"},
      {"{'descr': '<f16', 'fortran_order': False, 'shape': (3, 4)}", "holds '<f16'"},
      {"{'descr': '|S1', 'fortran_order': False, 'shape': (3, 4)}", "holds '|S1'; expected '<f4' (f32)"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}", "'|i1' (i8), '<i4' (i32) or '<i8' (i64)"},
      {"{'descr': '>i4', 'fortran_order': False, 'shape': (3, 4)}", "expected little-endian ('<i4')"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "structured"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "overflows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}", "length from 0"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}  \n", "in the shape before '-1,)}'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", "(N,)"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4 5)}", "')' expected"},
      {"{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"},
      {"{'descr': '<f4', 'shape': (3,)}", "'fortran_order' is missing"},
      {"{'fortran_order': False, 'shape': (3,)}", "'descr' is missing"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "repeated key 'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}", "unexpected or repeated key 'more'"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}", "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x", "characters after the dictionary"},
      {"{'descr': '<f4", "quoted string"},
      {"", "'{' expected"},
  };
  for (const auto& [text, part] : cases)
    EXPECT_NE(message_of([text = text] { parse_npy_dictionary(text); }).find(part), std::string::npos)
        << text << " -> " << message_of([text = text] { parse_npy_dictionary(text); });
}

TEST(NpyHeader, IsWrittenAligned) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {5}, {3, 4}, {1, 2, 3, 4}, {1234567890123, 0}}) {
    const std::string text = npy_header_text({NpyType::u2, shape});
    ASSERT_EQ(text.size() % 64, 0u);
    EXPECT_EQ(text.back(), '\n');
    const std::size_t length = static_cast<unsigned char>(text[8]) + 256u * static_cast<unsigned char>(text[9]);
    ASSERT_EQ(length + 10, text.size());
    const NpyHeader header = parse_npy_dictionary(std::string_view(text).substr(10));
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.type, NpyType::u2);
  }
}

class NpyFile : public testing::Test {
 protected:
  NpyFile() {
    std::string name = (fs::temp_directory_path() / "tunesmith-npy-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~NpyFile() override { fs::remove_all(folder_); }

  std::string error_of(const std::string& bytes) const {
    std::ofstream(folder_ / "a.npy", std::ios::binary) << bytes;
    const std::string message = message_of([this] { NpyReader reader(folder_ / "a.npy"); });
    EXPECT_NE(message.find("a.npy"), std::string::npos) << message;
    return message;
  }

  fs::path folder_;
};

TEST_F(NpyFile, RoundTrip) {
  const float values[] = {1, -2, 3.5f, -0.0f, 1e-40f, 6};
  NpyWriter writer(folder_ / "a.npy");
  writer.write_header({NpyType::f4, {2, 3}});
  writer.write(reinterpret_cast<const std::byte*>(values), sizeof values);
  EXPECT_FALSE(fs::exists(folder_ / "a.npy"));  // not before it is whole
  writer.commit();

  NpyReader reader(folder_ / "a.npy");
  EXPECT_EQ(reader.header().shape, (std::vector<std::int64_t>{2, 3}));
  float read[6];
  reader.read(reinterpret_cast<std::byte*>(read), 12);
  reader.read(reinterpret_cast<std::byte*>(read) + 12, 12);
  EXPECT_EQ(std::memcmp(read, values, sizeof values), 0);
}

TEST_F(NpyFile, VersionsTwoAndThreeHaveLongerLengths) {
  for (const char version : {'\x02', '\x03'}) {
    const std::string dictionary = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n";
    std::string bytes = "\x93NUMPY";
    bytes += version;
    bytes += '\0';
    bytes += static_cast<char>(dictionary.size());
    bytes += std::string(3, '\0') + dictionary + "abcd";
    std::ofstream(folder_ / "a.npy", std::ios::binary) << bytes;
    EXPECT_EQ(NpyReader(folder_ / "a.npy").header().type, NpyType::i4);
  }
}

TEST_F(NpyFile, AnUnfinishedFileLeavesNothing) {
  {
    NpyWriter writer(folder_ / "a.npy");
    writer.write_header({NpyType::f4, {2, 3}});
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(NpyFile, SaysWhatIsWrongWithTheFile) {
  const std::string header = npy_header_text({NpyType::f4, {2, 3}});
  EXPECT_NE(message_of([] { NpyReader reader("nowhere/b.npy"); }).find("'nowhere/b.npy' does not exist"), std::string::npos);
  EXPECT_NE(message_of([this] { NpyReader reader(folder_); }).find("is a folder"), std::string::npos);
  EXPECT_NE(error_of("").find("not a .npy file"), std::string::npos);
  EXPECT_NE(error_of("PK\x03\x04 an archive").find("not a .npy file"), std::string::npos);
  EXPECT_NE(error_of(std::string("\x93NUMPY\x09\x00\x10\x00", 10)).find("version 9"), std::string::npos);
  EXPECT_NE(error_of(header.substr(0, 7)).find("truncated: it ends after 7 bytes"), std::string::npos);
  EXPECT_NE(error_of(header.substr(0, 9)).find("truncated in its header"), std::string::npos);
  EXPECT_NE(error_of(header.substr(0, 40)).find("truncated in its header"), std::string::npos);
  EXPECT_NE(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)).find("absurd"), std::string::npos);
  EXPECT_NE(error_of(header + std::string(23, 'x')).find("needs 24 bytes of data, the file has 23"), std::string::npos);
  EXPECT_NE(error_of(header + std::string(25, 'x')).find("24 bytes of data expected, the file has 25"), std::string::npos);
}

TEST_F(NpyFile, SaysWhyItCannotBeWritten) {
  EXPECT_NE(message_of([this] { NpyWriter writer(folder_ / "none" / "a.npy"); }).find("there is no folder"),
            std::string::npos);
  EXPECT_NE(message_of([this] { NpyWriter writer(folder_); }).find("is a folder"), std::string::npos);
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(message_of([&] { NpyWriter writer(pipe); }).find("is not a regular file"), std::string::npos);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace tunesmith::cli
