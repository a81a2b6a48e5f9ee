// Connections over loopback TCP in virtual time: both sides are stepped in one thread, so a
// deadline passes only when the test says so.
#include <braid/connect.h>
#include <unistd.h>

#include <array>

#include "bootstrap/messages.h"
#include "bootstrap/socket.h"
#include "channel/channel_bed.h"

namespace braid {
namespace {

using bootstrap::Socket;

class ConnectionTest : public test::ChannelBed {
 protected:
  void SetUp() override {
    open();
    std::string why;
    auto made = Listener::create("127.0.0.1", 0, &why);
    ASSERT_TRUE(made) << why;
    listener = std::make_unique<Listener>(std::move(*made));
  }

  void TearDown() override {
    server.reset();
    ChannelBed::TearDown();
  }

  std::unique_ptr<Connection> dial(const ChannelOptions& options) {
    std::string why;
    auto made = Connection::connect(*device, "127.0.0.1", listener->port(), options, now, &why);
    EXPECT_TRUE(made) << why;
    return std::make_unique<Connection>(std::move(*made));
  }

  // Steps both until neither says kWouldBlock; loopback needs no time, only turns.
  void run(Connection& client, const ChannelOptions& server_options) {
    client_status = server_status = Status(StatusCode::kWouldBlock);
    for (int i = 0; i < 10'000; ++i) {
      if (client_status.code() == StatusCode::kWouldBlock) client_status = client.step(now);
      if (server == nullptr) {
        auto accepted = listener->poll(*device, server_options, now);
        if (accepted) server = std::make_unique<Connection>(std::move(*accepted));
      } else if (server_status.code() == StatusCode::kWouldBlock) {
        server_status = server->step(now);
      }
      if (client_status.code() != StatusCode::kWouldBlock &&
          server_status.code() != StatusCode::kWouldBlock) {
        return;
      }
    }
  }

  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> server;
  Status client_status, server_status;
};

// Requirement: 1, 2
TEST_F(ConnectionTest, BothSides_PassTheStagesInOrderAndGetChannels) {
  ChannelOptions options;
  options.lanes = 3;
  auto client = dial(options);
  EXPECT_EQ(client->stage(), ConnectStage::kInit);
  ConnectStage last = client->stage();
  for (int i = 0; i < 10'000 && last != ConnectStage::kReady; ++i) {
    (void)client->step(now);
    EXPECT_GE(client->stage(), last);
    EXPECT_LE(static_cast<int>(client->stage()), static_cast<int>(last) + 1);
    last = client->stage();
    if (server == nullptr) {
      auto accepted = listener->poll(*device, options, now);
      if (accepted) server = std::make_unique<Connection>(std::move(*accepted));
    } else {
      (void)server->step(now);
    }
  }
  ASSERT_EQ(last, ConnectStage::kReady) << client->why();
  for (int i = 0; i < 100 && server->stage() != ConnectStage::kReady; ++i) {
    (void)server->step(now);
  }
  EXPECT_EQ(client->descriptor(), -1);  // nothing uses the socket any more
  a = client->take();
  b = server->take();
  ASSERT_TRUE(a && b);
  ASSERT_TRUE(a->notify({5}));
  for (int i = 0; i < 5; ++i) turn();
  Notification notification;
  EXPECT_EQ(b->poll_notifications({&notification, 1}), 1U);
}

TEST_F(ConnectionTest, ListenerWithZeroLanes_TakesThePeersNumber) {
  ChannelOptions options, any;
  options.lanes = 7;
  any.lanes = 0;
  auto client = dial(options);
  run(*client, any);
  ASSERT_TRUE(client_status.ok() && server_status.ok()) << client->why() << server->why();
  EXPECT_EQ(server->take()->lane_count(), 7U);
}

// Requirement: 5
// Fault: A6
TEST_F(ConnectionTest, DifferentCounts_FailOnBothSidesWithBothNumbers) {
  for (const bool notify : {false, true}) {
    ChannelOptions one, two;
    one.lanes = notify ? 4 : 3;
    two.lanes = notify ? 4 : 5;
    if (notify) {
      one.notify_ids = {1, 2, 3};
      two.notify_ids = {1, 2, 3, 4, 5};
    }
    server.reset();
    auto client = dial(one);
    run(*client, two);
    EXPECT_EQ(client_status.code(), StatusCode::kConnectionFailed);
    EXPECT_EQ(server_status.code(), StatusCode::kConnectionFailed);
    for (const std::string& why : {client->why(), server->why()}) {
      EXPECT_NE(why.find('3'), std::string::npos) << why;
      EXPECT_NE(why.find('5'), std::string::npos) << why;
    }
    EXPECT_EQ(client->take(), nullptr);
  }
}

// Requirement: 7b
// Fault: A26
TEST_F(ConnectionTest, TrafficClassAndRetriesThatDiffer_AreNoMatterOfTheOtherSide) {
  ChannelOptions one, two;
  one.traffic_class = 132;
  two.traffic_class = 0;
  one.retry_count = 1;
  two.retry_count = 5;
  auto client = dial(one);
  run(*client, two);
  ASSERT_TRUE(client_status.ok() && server_status.ok());
  EXPECT_EQ(client->take()->options().traffic_class, 132);
  EXPECT_EQ(server->take()->options().traffic_class, 0);
}

// Requirement: 6
TEST_F(ConnectionTest, EveryQueuePair_HasItsReceivesBeforeItTakesPackets) {
  ChannelOptions options;
  options.lanes = 5;
  options.receive_depth = 23;
  auto client = dial(options);
  run(*client, options);
  ASSERT_TRUE(client_status.ok() && server_status.ok()) << client->why();
  std::size_t lanes = 0;
  ASSERT_EQ(verbs.bring_ups().size(), 12U);  // five lanes and the control queue pair, on each side
  for (const test::QpBringUp& each : verbs.bring_ups()) {
    EXPECT_GT(each.receives, 0U) << each.qpn;
    lanes += each.receives == 23 ? 1 : 0;
  }
  EXPECT_EQ(lanes, 10U);
}

// Requirement: 7b, 37, 38
// Fault: A26
TEST_F(ConnectionTest, EachSidesOwnQualityOfService_IsWhatItsQueuePairsGet) {
  ChannelOptions one, two;
  one.lanes = two.lanes = 3;
  one.traffic_class = 104;
  two.traffic_class = 72;
  one.service_level = 4;
  two.service_level = 0;
  one.retry_count = 7;
  two.retry_count = 1;
  one.ack_timeout_exponent = 20;
  two.ack_timeout_exponent = 0;
  auto client = dial(one);
  run(*client, two);
  ASSERT_TRUE(client_status.ok() && server_status.ok()) << client->why();
  ASSERT_EQ(verbs.bring_ups().size(), 8U);
  int of_client = 0;
  for (const test::QpBringUp& each : verbs.bring_ups()) {
    const bool is_client = each.address.grh.traffic_class == 104;
    const ChannelOptions& own = is_client ? one : two;
    of_client += is_client ? 1 : 0;
    EXPECT_EQ(each.address.grh.traffic_class, own.traffic_class);
    EXPECT_EQ(each.address.sl, own.service_level);
    EXPECT_EQ(each.retry_count, own.retry_count);
    EXPECT_EQ(each.timeout, own.ack_timeout_exponent);
  }
  EXPECT_EQ(of_client, 4);
}

TEST_F(ConnectionTest, SourcePortThatIsForbidden_IsNamedToBothSides) {
  ChannelOptions one;
  one.source_ports = {80};
  auto client = dial(one);
  run(*client, ChannelOptions{});
  EXPECT_EQ(client_status.code(), StatusCode::kPermission);
  EXPECT_NE(client->why().find("80"), std::string::npos);
  EXPECT_EQ(server_status.code(), StatusCode::kConnectionFailed);
  EXPECT_NE(server->why().find("refused"), std::string::npos);
  EXPECT_NE(server->why().find("80"), std::string::npos);
}

// Requirement: 1
TEST_F(ConnectionTest, SilentListener_TimesOutAtTheDeadlineAndNotBefore) {
  ChannelOptions options;
  options.connect_timeout = std::chrono::seconds(3);
  auto client = dial(options);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client->step(now).code(), StatusCode::kWouldBlock);
  }
  now += std::chrono::seconds(3) - Duration(1);
  EXPECT_EQ(client->step(now).code(), StatusCode::kWouldBlock);
  now += Duration(1);
  EXPECT_EQ(client->step(now).code(), StatusCode::kTimeout);
  EXPECT_EQ(client->step(now).code(), StatusCode::kTimeout);  // it stays final
}

// Fault: A25
TEST_F(ConnectionTest, SilentSockets_AreDroppedAfterTheirDeadline) {
  std::vector<Socket> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(std::move(*Socket::connect("127.0.0.1", listener->port())));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(listener->poll(*device, {}, now).error().code(), StatusCode::kWouldBlock);
  }
  EXPECT_EQ(listener->dropped_peers(), 0U);
  now += std::chrono::seconds(6);
  (void)listener->poll(*device, {}, now);
  EXPECT_EQ(listener->dropped_peers(), 10U);
}

// Fault: A25
TEST_F(ConnectionTest, FloodOfSilentSockets_DoesNotKeepAPeerOut) {
  std::vector<Socket> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(std::move(*Socket::connect("127.0.0.1", listener->port())));
    (void)listener->poll(*device, {}, now);
    now += std::chrono::milliseconds(2);  // 64 of them take longer than an honest peer is given
  }
  auto client = dial({});
  run(*client, {});
  EXPECT_TRUE(client_status.ok() && server_status.ok()) << client->why();
  EXPECT_GE(listener->dropped_peers(), 200U);
}

// Requirement: 1
// Fault: A25
TEST_F(ConnectionTest, ManyPeersAtOnce_NoneIsTakenForASilentSocket) {
  constexpr std::size_t kPeers = 120;  // more than wait at a time; the backlog holds the rest
  ChannelOptions options;
  options.lanes = 1;
  std::vector<std::unique_ptr<Connection>> clients, servers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    clients.push_back(dial(options));
    for (int k = 0; k < 100 && clients.back()->stage() == ConnectStage::kInit; ++k) {
      (void)clients.back()->step(now);
    }
  }
  // Nobody has said a word yet, and more are there than may wait.
  for (int k = 0; k < 10; ++k) (void)listener->poll(*device, options, now);
  for (auto& client : clients) (void)client->step(now);
  for (std::size_t k = 0; k < 100 * kPeers && servers.size() < kPeers; ++k) {
    auto accepted = listener->poll(*device, options, now);
    if (accepted) servers.push_back(std::make_unique<Connection>(std::move(*accepted)));
  }
  EXPECT_EQ(servers.size(), kPeers);
  EXPECT_EQ(listener->dropped_peers(), 0U);
}

// Fault: A25
TEST_F(ConnectionTest, PeerThatGoesDuringTheHandshake_IsAFailureWithAName) {
  auto made = Socket::listen("127.0.0.1", 0);
  ASSERT_TRUE(made);
  std::string why;
  auto client =
      Connection::connect(*device, "127.0.0.1", made->local_port(), ChannelOptions{}, now, &why);
  ASSERT_TRUE(client);
  for (int i = 0; i < 1000; ++i) {
    (void)client->step(now);
    auto peer = made->accept();
    if (peer) break;  // and closes at once
  }
  Status status(StatusCode::kWouldBlock);
  for (int i = 0; i < 1000 && status.code() == StatusCode::kWouldBlock; ++i) {
    status = client->step(now);
  }
  EXPECT_EQ(status.code(), StatusCode::kConnectionFailed);
  EXPECT_NE(client->why().find(std::to_string(made->local_port())), std::string::npos);
}

// Fault: A23
TEST_F(ConnectionTest, HundredConnectAndCloseCycles_LeaveNoObjectAndNoDescriptor) {
  auto descriptors = [] {
    const int probe = ::dup(0);
    ::close(probe);
    return probe;  // the lowest free one
  };
  const int before = descriptors();
  const std::size_t objects = verbs.live_objects();
  for (int i = 0; i < 100; ++i) {
    server.reset();
    auto client = dial({});
    run(*client, {});
    ASSERT_TRUE(client_status.ok() && server_status.ok());
    a = client->take();
    b = server->take();
    a->close();
    b->close();
    for (int k = 0; k < 10; ++k) turn();
    ASSERT_EQ(a->state(), ChannelState::kClosed);
    ASSERT_EQ(b->state(), ChannelState::kClosed);
    a.reset();
    b.reset();
  }
  server.reset();
  EXPECT_EQ(verbs.live_objects(), objects);
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace braid
