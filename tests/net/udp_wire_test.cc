#include "softverbs/udp_wire.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "roce/icrc.h"
#include "roce/packet_builder.h"
#include "softverbs/file_descriptor.h"
#include "softverbs/socket_address.h"

namespace braid::softverbs {
namespace {

using roce::FlowAddress;
using roce::TxBatch;

constexpr TimePoint kNow{std::chrono::seconds(1)};
constexpr int kDeadlineMs = 5000;

/// Keeps copies of everything received.
class Recorder final : public RxSink {
 public:
  struct Seen {
    std::vector<std::uint8_t> bytes;
    roce::RxDatagram datagram;
    bool icrc_valid;
  };

  void on_datagrams(std::span<const roce::RxDatagram> datagrams, TimePoint now) noexcept override {
    EXPECT_EQ(now, kNow);
    for (const roce::RxDatagram& datagram : datagrams) {
      seen.push_back({{datagram.payload.begin(), datagram.payload.end()},
                      datagram,
                      roce::verify_icrc(datagram)});
    }
  }

  std::vector<Seen> seen;
};

bool wait_readable(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, kDeadlineMs) == 1;
}

/// Receives until `count` datagrams are there or nothing comes for the deadline.
void receive_until(UdpWire& wire, Recorder& recorder, std::size_t count) {
  while (recorder.seen.size() < count && wait_readable(wire.receive_fd())) {
    (void)wire.receive(recorder, kNow, 4);
  }
}

std::unique_ptr<UdpWire> make_wire(const SoftDeviceOptions& options = {}) {
  std::string error;
  auto wire = UdpWire::create(options, &error);
  EXPECT_TRUE(wire) << error;
  return wire ? std::move(*wire) : nullptr;
}

FlowAddress flow_between(const UdpWire& from, const UdpWire& to, std::uint16_t port) {
  FlowAddress flow;
  flow.source = from.address();
  flow.destination = to.address();
  flow.source_port = port;
  return flow;
}

/// Appends a write packet; `payload` stays in place until the batch has been sent.
void add_packet(TxBatch& batch, const FlowAddress& flow, std::uint32_t psn,
                std::span<const std::uint8_t> payload) {
  roce::Headers headers;
  headers.opcode = roce::Opcode::kWriteMiddle;
  headers.destination_qpn = 0x123456;
  headers.psn = roce::Psn(psn);
  headers.pad_bytes = roce::pad_for(payload.size());
  roce::PacketBuilder builder(batch, flow, headers);
  builder.add_payload(payload.data(), payload.size());
  builder.finish();
}

std::uint32_t psn_of(const std::vector<std::uint8_t>& bytes) {
  return bytes.size() < 12
             ? ~0U
             : static_cast<std::uint32_t>(bytes[9] << 16 | bytes[10] << 8 | bytes[11]);
}

std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::uint8_t>(i * 31 + i / 256);
  return out;
}

/// A port that was free a moment ago, on this address.
std::uint16_t free_port(const roce::IpAddress& ip) {
  SocketAddress address;
  to_socket_address(ip, 0, 0, address);
  const FileDescriptor socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), address.get(), address.bytes), 0);
  EXPECT_EQ(::getsockname(socket.get(), address.get(), &address.bytes), 0);
  roce::IpAddress ignored;
  std::uint16_t port = 0;
  from_socket_address(address.storage, ignored, port);
  return port;
}

struct Mode {
  const char* name;
  const char* sender;  // address, empty = chosen
  const char* receiver;
  bool segmentation;
};

class UdpWireExchange : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    SoftDeviceOptions options;
    options.segmentation_offload = GetParam().segmentation;
    options.address = GetParam().sender;
    sender_ = make_wire(options);
    ASSERT_NE(sender_, nullptr);
    options.address = GetParam().receiver;
    receiver_ = *GetParam().receiver == '=' ? nullptr : make_wire(options);
    port_ = free_port(sender_->address());
    ASSERT_TRUE(sender_->open_source_port(port_).ok());
  }
  /// Over IPv6 there is one loopback address: the device sends to itself.
  UdpWire& receiver() { return receiver_ != nullptr ? *receiver_ : *sender_; }

  std::unique_ptr<UdpWire> sender_;
  std::unique_ptr<UdpWire> receiver_;
  std::uint16_t port_ = 0;
};

TEST_P(UdpWireExchange, Batch_ArrivesInOrderWithValidIcrcs) {
  const FlowAddress flow = flow_between(*sender_, receiver(), port_);
  const std::vector<std::uint8_t> payload = pattern(4096);
  TxBatch batch(128);
  std::vector<std::size_t> sizes;
  // More than one segmented send, a shorter tail, and packets that do not fit their neighbours.
  for (int i = 0; i < 40; ++i) sizes.push_back(4096);
  for (const std::size_t size : {100U, 4096U, 1U, 0U, 8U, 8U, 8U, 5U}) sizes.push_back(size);
  for (int i = 0; i < 70; ++i) sizes.push_back(8);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    add_packet(batch, flow, static_cast<std::uint32_t>(i), std::span(payload).first(sizes[i]));
  }
  sender_->send(batch.packets(), batch.iovs());

  Recorder recorder;
  receive_until(receiver(), recorder, sizes.size());
  ASSERT_EQ(recorder.seen.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto& seen = recorder.seen[i];
    EXPECT_EQ(psn_of(seen.bytes), i);
    EXPECT_TRUE(seen.icrc_valid) << "packet " << i;
    EXPECT_EQ(seen.datagram.source, sender_->address());
    EXPECT_EQ(seen.datagram.destination, receiver().address());
    EXPECT_EQ(seen.datagram.source_port, port_);
    EXPECT_EQ(seen.datagram.ip_id, roce::kUnknownIpId);
    ASSERT_EQ(seen.bytes.size(), 16 + sizes[i] + roce::pad_for(sizes[i]));
    EXPECT_TRUE(std::equal(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(sizes[i]),
                           seen.bytes.begin() + 12));
  }
  const WireCounters counters = sender_->counters();
  EXPECT_EQ(counters.tx_packets, sizes.size());
  EXPECT_EQ(counters.tx_dropped_packets, 0U);
  EXPECT_EQ(counters.tx_segmentation_refusals, 0U);
  EXPECT_EQ(receiver().counters().rx_datagrams, sizes.size());
  if (GetParam().segmentation) {
    EXPECT_GE(counters.tx_segmented_sends, 5U);
    EXPECT_LE(counters.tx_syscalls, 2U);
    EXPECT_GT(receiver().counters().rx_coalesced_messages, 0U);
  } else {
    EXPECT_EQ(counters.tx_segmented_sends, 0U);
  }
}

TEST_P(UdpWireExchange, DamagedPacket_FailsItsIcrc) {
  const FlowAddress flow = flow_between(*sender_, receiver(), port_);
  std::vector<std::uint8_t> payload = pattern(64);
  TxBatch batch(4);
  for (std::uint32_t i = 0; i < 3; ++i) add_packet(batch, flow, i, payload);
  payload[5] ^= 1;  // after the ICRC has been computed
  sender_->send(batch.packets(), batch.iovs());
  Recorder recorder;
  receive_until(receiver(), recorder, 3);
  ASSERT_EQ(recorder.seen.size(), 3U);
  for (const auto& seen : recorder.seen) EXPECT_FALSE(seen.icrc_valid);
}

INSTANTIATE_TEST_SUITE_P(Wire, UdpWireExchange,
                         testing::Values(Mode{"V4Segmented", "", "", true},
                                         Mode{"V4Single", "", "", false},
                                         Mode{"V6Segmented", "::1", "=", true},
                                         Mode{"V6Single", "::1", "=", false}),
                         [](const auto& mode) { return std::string(mode.param.name); });

TEST(UdpWire, SegmentsOfOneSend_CarryTheIcrcOfTheirIdentification) {
  // The kernel numbers the segments of a send from 0; see UdpWire.
  const auto sender = make_wire();
  const auto receiver = make_wire();
  const std::uint16_t port = free_port(sender->address());
  ASSERT_TRUE(sender->open_source_port(port).ok());
  const FlowAddress flow = flow_between(*sender, *receiver, port);
  const std::vector<std::uint8_t> payload = pattern(256);
  TxBatch batch(8);
  for (std::uint32_t i = 0; i < 8; ++i) add_packet(batch, flow, i, payload);
  sender->send(batch.packets(), batch.iovs());
  ASSERT_EQ(sender->counters().tx_segmented_sends, 1U);
  Recorder recorder;
  receive_until(*receiver, recorder, 8);
  ASSERT_EQ(recorder.seen.size(), 8U);
  for (int i = 0; i < 8; ++i) {
    for (int id = 0; id < 8; ++id) {
      roce::RxDatagram datagram = recorder.seen[static_cast<std::size_t>(i)].datagram;
      datagram.payload = recorder.seen[static_cast<std::size_t>(i)].bytes;
      datagram.ip_id = id;
      EXPECT_EQ(roce::verify_icrc(datagram), id == i) << "segment " << i << ", id " << id;
    }
  }
}

TEST(UdpWire, TwoPortsInOneBatch_KeepTheOrderOfEach) {
  const auto sender = make_wire();
  const auto receiver = make_wire();
  std::vector<FlowAddress> flows;
  for (int i = 0; i < 2; ++i) {
    const std::uint16_t port = free_port(sender->address());
    ASSERT_TRUE(sender->open_source_port(port).ok());
    flows.push_back(flow_between(*sender, *receiver, port));
  }
  const std::vector<std::uint8_t> payload = pattern(512);
  TxBatch batch(64);
  for (std::uint32_t i = 0; i < 60; ++i) add_packet(batch, flows[i / 5 % 2], i, payload);
  sender->send(batch.packets(), batch.iovs());
  Recorder recorder;
  receive_until(*receiver, recorder, 60);
  ASSERT_EQ(recorder.seen.size(), 60U);
  std::map<std::uint16_t, std::uint32_t> last;
  for (const auto& seen : recorder.seen) {
    EXPECT_TRUE(seen.icrc_valid);
    const std::uint32_t psn = psn_of(seen.bytes);
    EXPECT_EQ(seen.datagram.source_port, flows[psn / 5 % 2].source_port);
    const auto [entry, first] = last.try_emplace(seen.datagram.source_port, psn);
    if (!first) {
      EXPECT_LT(entry->second, psn);
    }
    entry->second = psn;
  }
}

void ask_for_headers(int fd, bool v4) {
  const int on = 1;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  ASSERT_EQ(::setsockopt(fd, level, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on)), 0);
  ASSERT_EQ(::setsockopt(fd, level, v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &on, sizeof(on)), 0);
}

/// Traffic class and hop limit of the next datagram on a descriptor, read past the wire.
std::pair<int, int> receive_header(int fd, bool v4) {
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (!wait_readable(fd)) return {-1, -1};
  std::array<std::uint8_t, 9000> buffer;
  alignas(cmsghdr) std::array<std::uint8_t, 256> control;
  iovec piece{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  EXPECT_GT(::recvmsg(fd, &header, 0), 0);
  std::pair<int, int> out{-1, -1};
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != level) continue;
    // IP_TOS is one byte, the others are ints.
    int value = *CMSG_DATA(c);
    if (c->cmsg_len == CMSG_LEN(sizeof(value))) std::memcpy(&value, CMSG_DATA(c), sizeof(value));
    if (c->cmsg_type == (v4 ? IP_TOS : IPV6_TCLASS)) out.first = value;
    if (c->cmsg_type == (v4 ? IP_TTL : IPV6_HOPLIMIT)) out.second = value;
  }
  return out;
}

TEST_P(UdpWireExchange, TrafficClassAndHopLimit_LeaveWithEachPacket) {
  const bool v4 = receiver().address().is_v4();
  const std::vector<std::uint8_t> payload = pattern(32);
  constexpr std::array<std::pair<std::uint8_t, std::uint8_t>, 4> kWanted{
      {{0, 64}, {26 << 2 | 2, 64}, {46 << 2, 7}, {0, 64}}};  // DSCP 26 with ECT(0), DSCP 46
  ask_for_headers(receiver().receive_fd(), v4);
  for (const auto& [traffic_class, hop_limit] : kWanted) {
    FlowAddress flow = flow_between(*sender_, receiver(), port_);
    flow.traffic_class = traffic_class;
    flow.hop_limit = hop_limit;
    TxBatch batch(1);
    add_packet(batch, flow, 1, payload);
    sender_->send(batch.packets(), batch.iovs());
    const auto [seen_class, seen_limit] = receive_header(receiver().receive_fd(), v4);
    EXPECT_EQ(seen_class, traffic_class);
    EXPECT_EQ(seen_limit, hop_limit);
  }
}

TEST(UdpWire, TakenV6Address_IsRefusedNamingIt) {
  SoftDeviceOptions options;
  options.address = "::1";
  const auto first = make_wire(options);
  std::string error;
  const auto taken = UdpWire::create(options, &error);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().detail(), EADDRINUSE);
  EXPECT_NE(error.find("[::1]:4791"), std::string::npos) << error;
}

TEST(UdpWire, Address_IsChosenFreeAndNotShared) {
  std::vector<std::unique_ptr<UdpWire>> wires;
  std::set<std::array<std::uint8_t, 16>> addresses;
  for (int i = 0; i < 16; ++i) {
    wires.push_back(make_wire());
    ASSERT_NE(wires.back(), nullptr);
    ASSERT_TRUE(wires.back()->address().is_v4());
    EXPECT_EQ(wires.back()->address().v4()[0], 127);
    addresses.insert(wires.back()->address().bytes);
    EXPECT_EQ(wires.back()->max_mtu_bytes(), 4096U);
  }
  EXPECT_EQ(addresses.size(), 16U);
}

TEST(UdpWire, TakenAddress_IsRefusedNamingAddressPortAndRemedy) {
  SoftDeviceOptions options;
  options.address = "127.254.7.8";
  const auto first = make_wire(options);
  std::string error;
  const auto second = UdpWire::create(options, &error);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kIo);
  EXPECT_EQ(second.error().detail(), EADDRINUSE);
  EXPECT_NE(error.find("127.254.7.8:4791"), std::string::npos) << error;
  EXPECT_NE(error.find("choose another address"), std::string::npos) << error;
}

TEST(UdpWire, ForeignAddress_IsRefusedAsNotOfThisHost) {
  SoftDeviceOptions options;
  options.address = "198.51.100.77";
  std::string error;
  const auto wire = UdpWire::create(options, &error);
  ASSERT_FALSE(wire);
  EXPECT_EQ(wire.error().detail(), EADDRNOTAVAIL);
  EXPECT_NE(error.find("no interface of this host has the address"), std::string::npos) << error;
  options.address = "host.example";
  EXPECT_EQ(UdpWire::create(options, &error).error().code(), StatusCode::kInvalidArgument);
}

TEST(UdpWire, Mtu_IsCheckedAgainstTheInterface) {
  SoftDeviceOptions options;
  std::string error;
  options.mtu_bytes = 1024;
  EXPECT_EQ(make_wire(options)->max_mtu_bytes(), 1024U);
  for (const std::uint32_t bad : {1000U, 128U, 8192U}) {
    options.mtu_bytes = bad;
    EXPECT_EQ(UdpWire::create(options, &error).error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.find(std::to_string(bad)), std::string::npos) << error;
  }
  EXPECT_EQ(path_mtu_bytes(1500), 1024U);
  EXPECT_EQ(path_mtu_bytes(4175), 2048U);
  EXPECT_EQ(path_mtu_bytes(4176), 4096U);
  EXPECT_EQ(path_mtu_bytes(336), 256U);
  EXPECT_EQ(path_mtu_bytes(335), 0U);
}

TEST(UdpWire, TakenSourcePort_IsRefusedAndFreeAfterTheLastClose) {
  SoftDeviceOptions options;
  const auto wire = make_wire(options);
  const std::uint16_t port = free_port(wire->address());
  SocketAddress address;
  to_socket_address(wire->address(), port, 0, address);
  const auto bind_port = [&](FileDescriptor& out) {
    out = FileDescriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::bind(out.get(), address.get(), address.bytes) == 0 ? 0 : errno;
  };
  FileDescriptor other;
  ASSERT_EQ(bind_port(other), 0);
  const Status taken = wire->open_source_port(port);
  EXPECT_EQ(taken.code(), StatusCode::kIo);
  EXPECT_EQ(taken.detail(), EADDRINUSE);

  other.reset();
  ASSERT_TRUE(wire->open_source_port(port).ok());
  ASSERT_TRUE(wire->open_source_port(port).ok());
  EXPECT_EQ(bind_port(other), EADDRINUSE);
  wire->close_source_port(port);
  EXPECT_EQ(bind_port(other), EADDRINUSE);
  wire->close_source_port(port);
  EXPECT_EQ(bind_port(other), 0);
  EXPECT_EQ(wire->open_source_port(0).code(), StatusCode::kInvalidArgument);
}

TEST(UdpWire, Port4791_SendsFromTheReceivingSocket) {
  const auto sender = make_wire();
  const auto receiver = make_wire();
  ASSERT_TRUE(sender->open_source_port(roce::kRoceUdpPort).ok());
  const FlowAddress flow = flow_between(*sender, *receiver, roce::kRoceUdpPort);
  const std::vector<std::uint8_t> payload = pattern(20);
  TxBatch batch(2);
  add_packet(batch, flow, 1, payload);
  sender->send(batch.packets(), batch.iovs());
  Recorder recorder;
  receive_until(*receiver, recorder, 1);
  ASSERT_EQ(recorder.seen.size(), 1U);
  EXPECT_EQ(recorder.seen[0].datagram.source_port, roce::kRoceUdpPort);
  sender->close_source_port(roce::kRoceUdpPort);
  // Closing gave back a use, not the device's own socket.
  ASSERT_TRUE(sender->open_source_port(roce::kRoceUdpPort).ok());
  sender->send(batch.packets(), batch.iovs());
  receive_until(*receiver, recorder, 2);
  EXPECT_EQ(recorder.seen.size(), 2U);
}

TEST(UdpWire, ClosedPort_DropsAndCounts) {
  const auto sender = make_wire();
  const auto receiver = make_wire();
  const FlowAddress flow = flow_between(*sender, *receiver, 50000);
  const std::vector<std::uint8_t> payload = pattern(20);
  TxBatch batch(2);
  add_packet(batch, flow, 1, payload);
  sender->send(batch.packets(), batch.iovs());
  EXPECT_EQ(sender->counters().tx_dropped_packets, 1U);
  EXPECT_EQ(sender->counters().tx_syscalls, 0U);
}

TEST(UdpWire, FullReceiveBuffer_LosesAndCounts) {
  const auto sender = make_wire();
  SoftDeviceOptions small;
  small.socket_buffer_bytes = 64 << 10;
  const auto receiver = make_wire(small);
  const std::uint16_t port = free_port(sender->address());
  ASSERT_TRUE(sender->open_source_port(port).ok());
  const FlowAddress flow = flow_between(*sender, *receiver, port);
  const std::vector<std::uint8_t> payload = pattern(4096);
  for (int round = 0; round < 16; ++round) {
    TxBatch batch(32);
    for (std::uint32_t i = 0; i < 32; ++i) add_packet(batch, flow, i, payload);
    sender->send(batch.packets(), batch.iovs());
  }
  EXPECT_GT(receiver->counters().rx_overflow_drops, 0U);
  Recorder recorder;
  while (receiver->receive(recorder, kNow, UdpWire::kMaxReceiveMessages) != 0) {
  }
  EXPECT_GT(recorder.seen.size(), 0U);
  EXPECT_LT(recorder.seen.size(), 512U);
  for (const auto& seen : recorder.seen) EXPECT_TRUE(seen.icrc_valid);
}

TEST(UdpWire, RawReceive_SeesTheIdentificationsOfSegments) {
  SoftDeviceOptions options;
  options.raw_receive = true;
  std::string error;
  auto made = UdpWire::create(options, &error);
  if (!made && made.error().code() == StatusCode::kPermission) {
    EXPECT_NE(error.find("CAP_NET_RAW"), std::string::npos) << error;
    GTEST_SKIP() << error;
  }
  ASSERT_TRUE(made) << error;
  UdpWire& receiver = **made;
  const auto sender = make_wire();
  const std::uint16_t port = free_port(sender->address());
  ASSERT_TRUE(sender->open_source_port(port).ok());
  const FlowAddress flow = flow_between(*sender, receiver, port);
  const std::vector<std::uint8_t> payload = pattern(100);

  // Alone: the header is visible, identification 0 with DF.
  TxBatch single(1);
  add_packet(single, flow, 0, payload);
  sender->send(single.packets(), single.iovs());
  // Together: the loopback interface hands over all in one, whose parts' headers nobody sees.
  TxBatch batch(8);
  for (std::uint32_t i = 1; i <= 8; ++i) add_packet(batch, flow, i, payload);
  sender->send(batch.packets(), batch.iovs());
  sender->send(single.packets(), single.iovs());

  Recorder recorder;
  receive_until(receiver, recorder, 10);
  ASSERT_EQ(recorder.seen.size(), 10U);
  EXPECT_EQ(recorder.seen.front().datagram.ip_id, 0);
  EXPECT_TRUE(recorder.seen.front().datagram.dont_fragment);
  EXPECT_EQ(recorder.seen.back().datagram.ip_id, 0);
  for (std::size_t i = 1; i <= 8; ++i) {
    EXPECT_EQ(recorder.seen[i].datagram.ip_id, roce::kUnknownIpId);
  }
  for (const auto& seen : recorder.seen) EXPECT_TRUE(seen.icrc_valid);
}

}  // namespace
}  // namespace braid::softverbs
