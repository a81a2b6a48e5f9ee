#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "base/random.h"
#include "bootstrap/frame_stream.h"
#include "bootstrap/messages.h"

namespace braid::bootstrap {
namespace {

Endpoints sample_endpoints(std::uint32_t lanes) {
  Endpoints message;
  message.gid[15] = 9;
  message.lid = 3;
  message.mtu_code = 5;
  message.rd_atomic = 16;
  message.control = {17, 0xFFFFFF};
  for (std::uint32_t i = 0; i < lanes; ++i) message.lanes.push_back({100 + i, i});
  message.exports.emplace_back(4096U, 1ULL << 40U, 77U);
  message.notify_ids = {5, 6, UINT32_MAX};
  return message;
}

TEST(Messages, Capabilities_LimitsComeInPairs) {
  auto accepted = [](Capabilities message) {
    Capabilities back;
    const bool ok = decode(encode(message), back).ok();
    return ok && back == message;
  };
  EXPECT_TRUE(accepted({1, 0, 1, 1}));
  EXPECT_TRUE(accepted({128, 127, 1U << 20U, 8192}));
  EXPECT_FALSE(accepted({0, 0, 1, 1}));
  EXPECT_FALSE(accepted({129, 0, 1, 1}));
  EXPECT_FALSE(accepted({1, 128, 1, 1}));
  EXPECT_FALSE(accepted({1, 0, 0, 1}));
  EXPECT_FALSE(accepted({1, 0, 3, 1}));
  EXPECT_FALSE(accepted({1, 0, 1U << 21U, 1}));
  EXPECT_FALSE(accepted({1, 0, 1, 0}));
  EXPECT_FALSE(accepted({1, 0, 1, 8193}));
}

// Requirement: 4
TEST(Messages, Endpoints_RoundTrip_AndEveryTruncation_IsRefused) {
  const Endpoints message = sample_endpoints(3);
  const std::vector<std::byte> bytes = encode(message);
  Endpoints back;
  ASSERT_TRUE(decode(bytes, back).ok());
  EXPECT_EQ(back.gid, message.gid);
  EXPECT_EQ(back.control, message.control);
  EXPECT_EQ(back.lanes, message.lanes);
  EXPECT_EQ(back.exports, message.exports);
  EXPECT_EQ(back.notify_ids, message.notify_ids);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode(std::span(bytes).first(length), back).ok()) << length;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, back).ok());
}

// Requirement: 4
// Fault: B12
TEST(Messages, Endpoints_LargestOfEverything_Fits) {
  Endpoints message = sample_endpoints(128);
  message.exports.resize(kMaxExports);
  message.notify_ids.resize(127);
  Endpoints back;
  EXPECT_TRUE(decode(encode(message), back).ok());
  message.lanes.resize(129, {100, 0});
  EXPECT_FALSE(decode(encode(message), back).ok());
}

TEST(Messages, RandomBytes_NeverDecodeOutOfRange) {
  Random random(5);
  std::vector<std::byte> bytes = encode(sample_endpoints(4));
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> changed = bytes;
    for (int k = 0; k < 3; ++k) {
      changed[random.below(changed.size())] = static_cast<std::byte>(random.next() & 0xFFU);
    }
    Endpoints back;
    if (!decode(changed, back).ok()) continue;
    EXPECT_LE(back.lanes.size(), 128U);
    EXPECT_LE(back.exports.size(), kMaxExports);
    for (const QpAddress& qp : back.lanes) EXPECT_LE(qp.qpn, 0xFFFFFFU);
  }
}

// Requirement: 5
// Fault: A6
TEST(Messages, LaneCountsThatDiffer_FailWithBothNumbersOnBothSides) {
  const Capabilities four{4, 127, 1024, 64}, two{2, 127, 1024, 64};
  for (const auto& [ours, theirs] : {std::pair{four, two}, std::pair{two, four}}) {
    std::string why;
    EXPECT_EQ(compare(ours, theirs, why).code(), StatusCode::kConnectionFailed);
    EXPECT_NE(why.find(std::to_string(ours.lanes)), std::string::npos) << why;
    EXPECT_NE(why.find(std::to_string(theirs.lanes)), std::string::npos) << why;
  }
  std::string why;
  EXPECT_TRUE(compare(four, four, why).ok());
  EXPECT_FALSE(compare(four, {4, 3, 1024, 64}, why).ok());
  EXPECT_TRUE(compare(four, {4, 127, 16, 8}, why).ok());  // these are reconciled
}

struct Streams {
  Streams() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    raw = Socket(pair[0]);
    stream = std::make_unique<FrameStream>(Socket(pair[1]));
  }
  Status receive() { return stream->receive(type, payload); }
  Socket raw;
  std::unique_ptr<FrameStream> stream;
  FrameType type = FrameType::kReady;
  std::vector<std::byte> payload;
};

TEST(FrameStream, FramesInSingleBytes_ComeOutWhole) {
  Streams s;
  const std::vector<std::byte> body = encode(Capabilities{4, 127, 1024, 64});
  std::vector<std::byte> bytes(kHeaderBytes);
  encode_header({FrameType::kCapabilities, static_cast<std::uint32_t>(body.size())},
                std::span(bytes).first<kHeaderBytes>());
  bytes.insert(bytes.end(), body.begin(), body.end());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(s.receive().code(), StatusCode::kWouldBlock);
    ASSERT_EQ(s.raw.send(std::span(bytes).subspan(i, 1)).value(), 1U);
  }
  ASSERT_TRUE(s.receive().ok());
  EXPECT_EQ(s.type, FrameType::kCapabilities);
  EXPECT_EQ(s.payload, body);
}

TEST(FrameStream, TwoFramesAtOnceAndAnEmptyOne_ComeOutInOrder) {
  Streams sender, receiver;
  FrameStream out{std::move(receiver.raw)};
  const std::array<std::byte, 3> body{std::byte{1}, std::byte{2}, std::byte{3}};
  out.send(FrameType::kRefuse, body);
  out.send(FrameType::kReady, {});
  ASSERT_TRUE(out.flush().ok());
  ASSERT_TRUE(receiver.receive().ok());
  EXPECT_EQ(receiver.type, FrameType::kRefuse);
  EXPECT_EQ(receiver.payload.size(), 3U);
  ASSERT_TRUE(receiver.receive().ok());
  EXPECT_EQ(receiver.type, FrameType::kReady);
  EXPECT_TRUE(receiver.payload.empty());
  EXPECT_EQ(receiver.receive().code(), StatusCode::kWouldBlock);
}

// Fault: A25
TEST(FrameStream, Garbage_IsAProtocolErrorWithAReason) {
  Streams s;
  const std::string_view garbage = "GET / HTTP/1.1\r\n";
  ASSERT_TRUE(s.raw.send(std::as_bytes(std::span(garbage))));
  EXPECT_EQ(s.receive().code(), StatusCode::kProtocol);
  EXPECT_FALSE(s.stream->why().empty());
}

// Fault: A25
TEST(FrameStream, OversizedLength_IsRefusedBeforeAnythingIsAllocated) {
  for (const bool too_large : {false, true}) {
    Streams s;
    std::array<std::byte, kHeaderBytes> header{};
    const auto limit = static_cast<std::uint32_t>(kMaxPayloadBytes);
    encode_header({FrameType::kReady, limit + (too_large ? 1 : 0)}, header);
    ASSERT_TRUE(s.raw.send(header));
    EXPECT_EQ(s.receive().code(), too_large ? StatusCode::kProtocol : StatusCode::kWouldBlock);
  }
}

TEST(FrameStream, OtherVersion_IsNamed) {
  Streams s;
  std::array<std::byte, kHeaderBytes> header{};
  encode_header({FrameType::kReady, 0}, header);
  header[5] = std::byte{42};
  ASSERT_TRUE(s.raw.send(header));
  EXPECT_EQ(s.receive().code(), StatusCode::kProtocol);
  EXPECT_NE(s.stream->why().find("42"), std::string::npos);
}

TEST(FrameStream, PeerCloses_IsAborted) {
  Streams s;
  s.raw.close();
  EXPECT_EQ(s.receive().code(), StatusCode::kAborted);
}

}  // namespace
}  // namespace braid::bootstrap
