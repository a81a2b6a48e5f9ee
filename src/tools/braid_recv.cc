// braid_recv [-o FILE] [--listen ADDR[:PORT]]: receives one file from braid_send.
#include <braid/blocking.h>

#include <cstdio>
#include <memory>

#include "tools/command_line.h"
#include "tools/exit_code.h"
#include "tools/file_session.h"
#include "tools/part_file.h"
#include "tools/progress_bar.h"
#include "tools/transfer_report.h"

namespace braid::tools {
namespace {

constexpr std::uint32_t kChunkBytes = 4U << 20U;
constexpr std::uint32_t kSlots = 16;

struct Arguments {
  CommonArguments common;
  std::string output;
  std::string listen;
  bool overwrite = false;
  double wait_s = 0;
};

/// The receiving end of tools/file_protocol.h over a connected session.
class FileReceiver {
 public:
  FileReceiver(FileSession& session, Memory& slots) : session_(session), slots_(slots) {}

  MaybeFailure run(const Arguments& arguments) {
    Letter offer;
    offer.type = LetterType::kOffer;
    offer.chunk_bytes = kChunkBytes;
    offer.slot_count = kSlots;
    MaybeFailure failure = session_.send_letter(offer);
    Letter header;
    if (!failure) failure = session_.wait_letter(header);
    if (failure) return failure;
    if (header.type != LetterType::kHeader) {
      return Failure{kExitTransfer, "the sender did not say which file it sends"};
    }
    bytes_ = header.file_bytes;
    name_ = arguments.output.empty() ? safe_file_name(header.text) : arguments.output;
    if (name_.empty()) {
      return tell({kExitFile, "the sender's file name \"" + printable(header.text) +
                                  "\" cannot be used here (give one with -o)"});
    }
    std::string why;
    Result<std::unique_ptr<PartFile>> file =
        PartFile::create(name_, bytes_, arguments.overwrite, why);
    if (!file) return tell({kExitFile, why});
    failure = session_.notify(kAccepted);
    if (!failure) failure = receive_chunks(**file);
    if (!failure) failure = finish(**file);
    return failure;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const Digest& digest() const { return digest_; }

 private:
  MaybeFailure receive_chunks(PartFile& file) {
    ProgressBar bar(bytes_, session_.now());
    std::uint64_t offset = 0, taken = 0;
    while (offset < bytes_) {
      MaybeFailure failure = session_.pump();
      if (!failure) failure = check_early_trailer();
      if (failure) return failure;
      if (session_.chunk_count - taken > kSlots) {
        return Failure{kExitTransfer, "the sender sent more than there are slots"};
      }
      if (taken == session_.chunk_count) continue;
      // One chunk per round: the channel gets its turn between two writes.
      const std::uint64_t bytes = std::min<std::uint64_t>(kChunkBytes, bytes_ - offset);
      const std::span<const std::byte> chunk(slots_.data() + taken % kSlots * kChunkBytes, bytes);
      hash_.update(chunk);
      std::string why;
      if (!file.write(offset, chunk, why).ok()) return tell({kExitFile, why});
      failure = session_.notify(kSlotFree);
      if (failure) return failure;
      offset += bytes;
      ++taken;
      bar.update(offset, session_.now());
    }
    return std::nullopt;
  }

  MaybeFailure finish(PartFile& file) {
    Letter trailer;
    MaybeFailure failure = session_.wait_letter(trailer);
    if (failure) return failure;
    if (trailer.type != LetterType::kTrailer) {
      return Failure{kExitTransfer, "the sender ended out of turn"};
    }
    if (!trailer.ok) return sender_gave_up(trailer);
    digest_ = hash_.finish();
    if (digest_ != trailer.digest) {
      return tell({kExitMismatch, "the received bytes have SHA-256 " + to_hex(digest_) +
                                      ", the sent ones " + to_hex(trailer.digest)});
    }
    std::string why;
    if (!file.finish(why).ok()) return tell({kExitFile, why});
    Letter result;
    result.type = LetterType::kResult;
    result.digest = digest_;
    failure = session_.send_letter(result);
    if (!failure) failure = session_.drain();
    return failure;
  }

  MaybeFailure check_early_trailer() {
    Letter letter;
    if (!session_.take_letter(letter)) return std::nullopt;
    if (letter.type == LetterType::kTrailer && !letter.ok) return sender_gave_up(letter);
    return Failure{kExitTransfer, "the sender spoke out of turn"};
  }

  static Failure sender_gave_up(const Letter& letter) {
    return Failure{letter.exit_code == kExitFile ? kExitFile : kExitTransfer,
                   "the sender gave up: " + printable(letter.text)};
  }

  // Tells the sender why this side gives up, and hands the reason on.
  Failure tell(Failure failure) {
    Letter result;
    result.type = LetterType::kResult;
    result.ok = false;
    result.exit_code = static_cast<std::uint32_t>(failure.exit_code);
    result.text = failure.text;
    if (!session_.send_letter(result)) (void)session_.drain();
    return failure;
  }

  FileSession& session_;
  Memory& slots_;
  std::string name_;
  std::uint64_t bytes_ = 0;
  Sha256 hash_;
  Digest digest_{};
};

MaybeFailure receive_file(const Arguments& arguments) {
  HostPort address;
  if (!parse_host_port(arguments.listen, kDefaultBootstrapPort, address)) {
    return Failure{kExitUsage, "\"" + arguments.listen + "\" is not ADDR or ADDR:PORT"};
  }
  std::unique_ptr<Device> device;
  MaybeFailure failure = open_device(arguments.common, device);
  if (failure) return failure;
  FileSession session;
  failure = session.prepare(*device);
  if (failure) return failure;
  Result<Memory> slots =
      device->allocate(std::uint64_t{kChunkBytes} * kSlots, MemoryAccess::kRemoteWrite);
  if (!slots) return Failure{kExitConnect, "no memory for slots: " + slots.error().to_string()};
  std::string why;
  Result<Listener> listener = Listener::create(address.host, address.port, &why);
  if (!listener) return Failure{kExitConnect, why};
  std::fprintf(stderr, "braid_recv: listening on %s port %u (device %s, %s)\n",
               address.host.empty() ? "every address" : address.host.c_str(), listener->port(),
               device->name().c_str(), device->address().c_str());
  ChannelOptions options = channel_options(arguments.common, 0);
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
  failure = receiver.run(arguments);
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
  print_report(report);
  if (arguments.common.json) print_report_json(report);
  return std::nullopt;
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
