#include "config/file_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace braid::config {
namespace {

class FileReader : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "braid_file_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& content) {
    const std::string path = folder_ + "/file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string folder_;
};

TEST_F(FileReader, WholeContent_EvenWithZeros) {
  const std::string content = std::string("a\0b\r\n", 5) + std::string(200000, 'x');
  const auto read = read_config_file(write(content));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, content);
  EXPECT_EQ(*read_config_file(write("")), "");
}

TEST_F(FileReader, SizeAtTheLimit_ReadOnePastRefused) {
  const std::string path = write(std::string(1000, 'x'));
  EXPECT_TRUE(read_config_file(path, 1000));
  EXPECT_EQ(read_config_file(path, 999).error(), Status::from_errno(StatusCode::kIo, EFBIG));
}

TEST_F(FileReader, NoSuchFile_IsNotFound) {
  EXPECT_EQ(read_config_file(folder_ + "/none").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(read_config_file(write("") + "/none").error().code(), StatusCode::kNotFound);
}

TEST_F(FileReader, FolderOrFifo_RefusedWithoutWaiting) {
  EXPECT_EQ(read_config_file(folder_).error().code(), StatusCode::kIo);
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_config_file(fifo).error().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace braid::config
