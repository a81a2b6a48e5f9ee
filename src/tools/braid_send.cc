// braid_send FILE HOST[:PORT]: sends a file to braid_recv over one channel of several lanes.
#include <braid/blocking.h>

#include <memory>
#include <string>

#include "tools/command_line.h"
#include "tools/exit_code.h"
#include "tools/file_sender.h"
#include "tools/file_session.h"
#include "tools/source_file.h"
#include "tools/transfer_report.h"

namespace braid::tools {
namespace {

struct Arguments {
  CommonArguments common;
  std::string file;
  std::string peer;
};

MaybeFailure send_file(const Arguments& arguments) {
  HostPort peer;
  if (!parse_host_port(arguments.peer, kDefaultBootstrapPort, peer) || peer.host.empty() ||
      peer.port == 0) {
    return Failure{kExitUsage, "\"" + arguments.peer + "\" is not HOST or HOST:PORT"};
  }
  SourceFile source;
  MaybeFailure failure = source.open(arguments.file);
  if (failure) return failure;
  std::unique_ptr<Device> device;
  failure = open_device(arguments.common, device);
  if (failure) return failure;
  ChannelConfig config;
  failure = configure("braid_send", arguments.common, *device, peer.host, 4, config);
  if (failure) return failure;
  if (arguments.common.print_config) return print_configuration(arguments.common, config);
  FileSession session;
  failure = session.prepare(*device);
  if (failure) return failure;
  ChannelOptions& options = config.options;
  options.exports = {session.inbox()};
  std::string why;
  Result<std::unique_ptr<Channel>> channel =
      blocking::connect(*device, peer.host, peer.port, options, timeout_of(arguments.common), &why);
  if (!channel) {
    const bool usage = channel.error().code() == StatusCode::kInvalidArgument;
    return Failure{usage ? kExitUsage : kExitConnect, why};
  }
  catch_interrupts();
  const TimePoint start = blocking::now();
  session.attach(**channel, timeout_of(arguments.common), start);
  FileSender sender(session, source);
  failure = sender.run(*device, arguments.file);
  const Duration elapsed = blocking::now() - start;
  if (failure) {
    // The receiver reports its own trouble itself; everything else it has to be told.
    sender.give_up(*failure);
    if ((*channel)->state() == ChannelState::kOpen) session.close();
    return failure;
  }
  TransferReport report = make_report(**channel, true);
  session.close();
  report.file = arguments.file;
  report.bytes = source.bytes();
  report.elapsed = elapsed;
  report.digest = sender.digest();
  report.verified = true;
  report.device = device->name();
  report.local_address = device->address();
  return print_report(report, arguments.common.json);
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Sends a file to braid_recv over one channel of several RDMA lanes.");
  app.add_option("FILE", arguments.file, "File to send")->required();
  app.add_option("HOST", arguments.peer, "HOST[:PORT] where braid_recv listens; port 60001")
      ->required();
  add_common_options(app, arguments.common);
  app.footer(
      std::string("Examples:\n"
                  "  braid_send disk.img 192.0.2.7\n"
                  "  braid_send disk.img 127.0.0.1 -q 4 --sports 50001,50002,50003,50004 \\\n"
                  "             --impair port=50004,rate=400Mbit --json\n\n") +
      kExitCodeHelp);
  int exit_code = kExitOk;
  if (!parse_command_line(app, argc, argv, exit_code)) return exit_code;
  const MaybeFailure failure = send_file(arguments);
  if (!failure) return kExitOk;
  return report_failure("braid_send", arguments.common, true, *failure);
}

}  // namespace
}  // namespace braid::tools

int main(int argc, char** argv) { return braid::tools::run(argc, argv); }
