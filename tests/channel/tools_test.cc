// What the file transfer programs are made of: letters, names, part files, host and port.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "tools/command_line.h"
#include "tools/file_protocol.h"
#include "tools/part_file.h"
#include "tools/sha256.h"
#include "tools/source_file.h"

namespace braid::tools {
namespace {

TEST(HostPort, AllShapes) {
  struct Case {
    const char* text;
    bool valid;
    const char* host;
    std::uint16_t port;
  };
  for (const Case& c : {Case{"host", true, "host", 7}, Case{"host:1", true, "host", 1},
                        Case{"host:65535", true, "host", 65535}, Case{"host:65536", false, "", 0},
                        Case{"host:", false, "", 0}, Case{"host:1x", false, "", 0},
                        Case{":5", true, "", 5}, Case{"", true, "", 7}, Case{"::1", true, "::1", 7},
                        Case{"[::1]", true, "::1", 7}, Case{"[::1]:9", true, "::1", 9},
                        Case{"[::1", false, "", 0}, Case{"[::1]9", false, "", 0}}) {
    HostPort out;
    EXPECT_EQ(parse_host_port(c.text, 7, out), c.valid) << c.text;
    if (!c.valid) continue;
    EXPECT_EQ(out.host, c.host) << c.text;
    EXPECT_EQ(out.port, c.port) << c.text;
  }
}

TEST(SafeFileName, NoPathAndNothingThatActsOnATerminal) {
  EXPECT_EQ(safe_file_name("a.bin"), "a.bin");
  EXPECT_EQ(safe_file_name("/etc/passwd"), "passwd");
  EXPECT_EQ(safe_file_name("../../x"), "x");
  EXPECT_EQ(safe_file_name("..."), "...");
  for (const char* bad : {"", ".", "..", "/", "a/", "x/..", "a\nb", "\x1b[2J", "\x7f"}) {
    EXPECT_EQ(safe_file_name(bad), "") << bad;
  }
  EXPECT_EQ(safe_file_name(std::string("a\0b", 3)), "");
  EXPECT_EQ(safe_file_name(std::string(250, 'n')), std::string(250, 'n'));
  EXPECT_EQ(safe_file_name(std::string(251, 'n')), "");
}

TEST(Letter, RoundTripOfEveryField_AndGarbageIsRefused) {
  std::array<std::byte, kLetterBytes> box{};
  Letter letter;
  letter.type = LetterType::kResult;
  letter.ok = false;
  letter.exit_code = 3;
  letter.chunk_bytes = 1;
  letter.slot_count = 2;
  letter.file_bytes = 1ULL << 50U;
  letter.digest[31] = std::byte{7};
  letter.text = std::string(kMaxTextBytes, 't');
  ASSERT_LE(encode(letter, box), kLetterBytes);
  Letter back;
  ASSERT_TRUE(decode(box, back).ok());
  EXPECT_EQ(back.type, letter.type);
  EXPECT_EQ(back.ok, letter.ok);
  EXPECT_EQ(back.exit_code, letter.exit_code);
  EXPECT_EQ(back.file_bytes, letter.file_bytes);
  EXPECT_EQ(back.digest, letter.digest);
  EXPECT_EQ(back.text, letter.text);
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    for (std::byte& b : box) b = static_cast<std::byte>(random.next() & 0xFFU);
    EXPECT_FALSE(decode(box, back).ok());
  }
  EXPECT_FALSE(decode(std::span(box).first(10), back).ok());
}

TEST(Sha256, KnownAnswers) {
  // FIPS 180-4 examples: the empty message and "abc".
  EXPECT_EQ(to_hex(Sha256().finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  for (const char* letter : {"a", "b", "c"}) hash.update(std::as_bytes(std::span(letter, 1)));
  EXPECT_EQ(to_hex(hash.finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

class PartFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "braid_part_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir = pattern;
    name = dir + "/file";
  }
  void TearDown() override { std::filesystem::remove_all(dir); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir), {}));
  }
  std::string dir, name, why;
};

TEST_F(PartFileTest, FinishedFile_HasItsNameAndContent) {
  const std::string text = "content";
  {
    auto file = PartFile::create(name, text.size(), false, why);
    ASSERT_TRUE(file) << why;
    EXPECT_FALSE(std::filesystem::exists(name));
    ASSERT_TRUE((*file)->write(0, std::as_bytes(std::span(text)), why).ok());
    ASSERT_TRUE((*file)->finish(why).ok()) << why;
  }
  std::ifstream in(name);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(PartFileTest, AbandonedFile_LeavesNothing) {
  { ASSERT_TRUE(PartFile::create(name, 100, false, why)); }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(PartFileTest, SecondReceiver_IsRefusedAndDoesNotRemoveTheFirstsFile) {
  auto first = PartFile::create(name, 100, false, why);
  ASSERT_TRUE(first);
  EXPECT_FALSE(PartFile::create(name, 100, false, why));
  EXPECT_NE(why.find("another receiver"), std::string::npos);
  EXPECT_EQ(entries(), 1U);
  EXPECT_TRUE((*first)->finish(why).ok()) << why;
}

TEST_F(PartFileTest, NameThatAppearsMeanwhile_IsNotReplaced) {
  auto file = PartFile::create(name, 0, false, why);
  ASSERT_TRUE(file);
  std::ofstream(name) << "someone else's";
  EXPECT_FALSE((*file)->finish(why).ok());
  std::ifstream in(name);
  std::string first_word;
  in >> first_word;
  EXPECT_EQ(first_word, "someone");
}

TEST_F(PartFileTest, SymbolicLinkOrFifoUnderThePartName_IsRefusedAndLeftAlone) {
  const std::string victim = dir + "/victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, name + ".part");
  EXPECT_FALSE(PartFile::create(name, 100, true, why));
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
  std::filesystem::remove(name + ".part");
  ASSERT_EQ(::mkfifo((name + ".part").c_str(), 0600), 0);
  EXPECT_FALSE(PartFile::create(name, 100, true, why));
  EXPECT_NE(why.find("not a regular file"), std::string::npos) << why;
  EXPECT_TRUE(std::filesystem::exists(name + ".part"));
}

TEST_F(PartFileTest, FifoAsSource_IsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  SourceFile source;
  const MaybeFailure failure = source.open(name);
  ASSERT_TRUE(failure.has_value());
  EXPECT_NE(failure->text.find("not a regular file"), std::string::npos) << failure->text;
}

}  // namespace
}  // namespace braid::tools
