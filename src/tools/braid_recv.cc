// braid_recv [-o FILE] [--listen ADDR[:PORT]]: receives one file from braid_send.
#include <braid/blocking.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/command_line.h"
#include "tools/exit_code.h"
#include "tools/file_receiver.h"
#include "tools/file_session.h"
#include "tools/transfer_report.h"

namespace braid::tools {
namespace {

struct Arguments {
  CommonArguments common;
  std::string output;
  std::string listen;
  bool overwrite = false;
  double wait_s = 0;
};

/// Listens on the port that the text names; when it names none, on the first free one of `ports`,
/// which may be empty.
Result<Listener> listen(const std::string& text, const HostPort& address,
                        const std::vector<PortRange>& ports, std::string& why) {
  HostPort other;
  const bool named =
      parse_host_port(text, address.port == 1 ? 2 : 1, other) && other.port == address.port;
  if (named || ports.empty()) return Listener::create(address.host, address.port, &why);
  for (const PortRange& range : ports) {
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
      Result<Listener> listener =
          Listener::create(address.host, static_cast<std::uint16_t>(port), &why);
      if (listener || listener.error().detail() != EADDRINUSE) return listener;
    }
  }
  why += "; that was the last of the configured ports";
  return Status::from_errno(StatusCode::kIo, EADDRINUSE);
}

MaybeFailure receive_file(const Arguments& arguments) {
  HostPort address;
  if (!parse_host_port(arguments.listen, kDefaultBootstrapPort, address)) {
    return Failure{kExitUsage, "\"" + arguments.listen + "\" is not ADDR or ADDR:PORT"};
  }
  std::unique_ptr<Device> device;
  MaybeFailure failure = open_device(arguments.common, device);
  if (failure) return failure;
  ChannelConfig config;
  failure = configure("braid_recv", arguments.common, *device, "", 0, config);
  if (failure) return failure;
  if (arguments.common.print_config) return print_configuration(arguments.common, config);
  FileSession session;
  failure = session.prepare(*device);
  if (failure) return failure;
  Result<Memory> slots = device->allocate(FileReceiver::kSlotsBytes, MemoryAccess::kRemoteWrite);
  if (!slots) return Failure{kExitConnect, "no memory for slots: " + slots.error().to_string()};
  std::string why;
  Result<Listener> listener = listen(arguments.listen, address, config.listen_ports, why);
  if (!listener) return Failure{kExitConnect, why};
  std::fprintf(stderr, "braid_recv: listening on %s port %u (device %s, %s)\n",
               address.host.empty() ? "every address" : address.host.c_str(), listener->port(),
               device->name().c_str(), device->address().c_str());
  ChannelOptions& options = config.options;
  options.exports = {session.inbox(), slots->remote()};
  const auto wait =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.wait_s));
  Result<std::unique_ptr<Channel>> channel =
      blocking::accept(*listener, *device, options, wait, &why);
  if (!channel) {
    const bool usage = channel.error().code() == StatusCode::kInvalidArgument;
    return Failure{usage ? kExitUsage : kExitConnect, why};
  }
  catch_interrupts();
  const TimePoint start = blocking::now();
  session.attach(**channel, timeout_of(arguments.common), start);
  FileReceiver receiver(session, *slots);
  failure = receiver.run(arguments.output, arguments.overwrite);
  const Duration elapsed = blocking::now() - start;
  TransferReport report = make_report(**channel, false);
  if ((*channel)->state() == ChannelState::kOpen) session.close();
  if (failure) return failure;
  report.file = receiver.name();
  report.bytes = receiver.bytes();
  report.elapsed = elapsed;
  report.digest = receiver.digest();
  report.verified = true;
  report.device = device->name();
  report.local_address = device->address();
  return print_report(report, arguments.common.json);
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Receives one file from braid_send over one channel of several RDMA lanes.");
  app.add_option("-o,--output", arguments.output,
                 "Name of the file; default: the sender's, in the current directory");
  app.add_option("--listen", arguments.listen,
                 "ADDR[:PORT] to listen on for the exchange; default: every address, port 60001");
  app.add_flag("-f,--force", arguments.overwrite, "Replace an existing file");
  app.add_option("--wait", arguments.wait_s, "Seconds to wait for a sender; 0 = for ever")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  add_common_options(app, arguments.common);
  app.footer(std::string("Without -q the sender's number of lanes is taken; with -q it must be "
                         "equal.\nThe file is written as FILE.part and gets its name when its "
                         "SHA-256 is that of the sender.\n\nExamples:\n"
                         "  braid_recv -o disk.img\n"
                         "  braid_recv --listen 192.0.2.7:60100 -q 8 --json\n\n") +
             kExitCodeHelp);
  int exit_code = kExitOk;
  if (!parse_command_line(app, argc, argv, exit_code)) return exit_code;
  const MaybeFailure failure = receive_file(arguments);
  if (!failure) return kExitOk;
  return report_failure("braid_recv", arguments.common, false, *failure);
}

}  // namespace
}  // namespace braid::tools

int main(int argc, char** argv) { return braid::tools::run(argc, argv); }
