// The example of README.md: one put with notification over four lanes. Both ends run in this
// process, each on a soft device of its own; in real use they are two programs on two machines.
#include <braid/blocking.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

using namespace std::chrono_literals;

// README: begin
braid::Status send(braid::Device& device, const char* host, std::uint16_t port) {
  auto memory = device.allocate(64, braid::MemoryAccess::kLocal);
  auto channel = braid::blocking::connect(device, host, port, {.lanes = 4}, 10s);
  if (!memory || !channel) return memory ? channel.error() : memory.error();
  std::strcpy(reinterpret_cast<char*>(memory->data()), "hello over four lanes");
  auto target = (*channel)->remote_memories()[0].range(0, 64);
  auto ticket = (*channel)->put(memory->range(0, 64), target, {.notify = {1}});
  return ticket ? braid::blocking::close(**channel, 10s) : ticket.error();
}

braid::Status receive(braid::Device& device, braid::Listener& listener) {
  auto memory = device.allocate(64, braid::MemoryAccess::kRemoteWrite);
  if (!memory) return memory.error();
  braid::ChannelOptions options{.lanes = 4, .exports = {memory->remote()}};
  auto channel = braid::blocking::accept(listener, device, options, 10s);
  if (!channel) return channel.error();
  auto notification = braid::blocking::wait_notification(**channel, 10s);  // every byte is here
  if (notification) std::puts(reinterpret_cast<char*>(memory->data()));
  return notification ? braid::blocking::close(**channel, 10s) : notification.error();
}
// README: end

int main() {
  std::string why;
  auto here = braid::Device::open_soft({}, &why);
  auto there = braid::Device::open_soft({}, &why);
  auto listener = braid::Listener::create("127.0.0.1", 0, &why);
  if (!here || !there || !listener) {
    std::fprintf(stderr, "readme_example: %s\n", why.c_str());
    return 1;
  }
  braid::Status received;
  std::thread receiver([&] { received = receive(*there, *listener); });
  const braid::Status sent = send(*here, "127.0.0.1", listener->port());
  receiver.join();
  if (sent.ok() && received.ok()) return 0;
  std::fprintf(stderr, "readme_example: sent: %s; received: %s\n", sent.to_string().c_str(),
               received.to_string().c_str());
  return 1;
}
