// braid_send FILE HOST[:PORT]: sends a file to braid_recv over one channel of several lanes.
#include <braid/blocking.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tools/command_line.h"
#include "tools/exit_code.h"
#include "tools/file_session.h"
#include "tools/progress_bar.h"
#include "tools/transfer_report.h"

namespace braid::tools {
namespace {

constexpr std::uint64_t kMaxStagingBytes = 1ULL << 30U;

struct Arguments {
  CommonArguments common;
  std::string file;
  std::string peer;
};

/// A file that is read from beginning to end.
class SourceFile {
 public:
  ~SourceFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MaybeFailure open(const std::string& name) {
    name_ = name;
    descriptor_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) return fail("cannot open", errno);
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) return fail("cannot read", errno);
    if (!S_ISREG(info.st_mode)) {
      return Failure{kExitFile, name + " is not a regular file"};
    }
    bytes_ = static_cast<std::uint64_t>(info.st_size);
    return std::nullopt;
  }
  /// Reads exactly this range; a file that became shorter is an error.
  MaybeFailure read(std::uint64_t offset, std::span<std::byte> buffer) {
    while (!buffer.empty()) {
      const ssize_t got =
          ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail("cannot read", errno);
      if (got == 0) return Failure{kExitFile, name_ + " became shorter while it was sent"};
      offset += static_cast<std::uint64_t>(got);
      buffer = buffer.subspan(static_cast<std::size_t>(got));
    }
    return std::nullopt;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  MaybeFailure fail(const char* what, int error) {
    return Failure{kExitFile, std::string(what) + " " + name_ + ": " + std::strerror(error)};
  }
  std::string name_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// The sending end of tools/file_protocol.h over a connected session.
class FileSender {
 public:
  FileSender(FileSession& session, SourceFile& source) : session_(session), source_(source) {}

  MaybeFailure run(Device& device, const std::string& name) {
    MaybeFailure failure = negotiate(device, name);
    if (!failure) failure = send_chunks();
    if (failure) return failure;
    digest_ = hash_.finish();
    Letter trailer;
    trailer.type = LetterType::kTrailer;
    trailer.digest = digest_;
    failure = session_.send_letter(trailer);
    Letter result;
    if (!failure) failure = session_.wait_letter(result);
    if (!failure) failure = judge(result);
    return failure;
  }

  /// Lets the receiver know why nothing more comes, as far as it can still hear it.
  void give_up(const Failure& failure) {
    if (session_.channel().state() != ChannelState::kOpen) return;
    Letter trailer;
    trailer.type = LetterType::kTrailer;
    trailer.ok = false;
    trailer.exit_code = static_cast<std::uint32_t>(failure.exit_code);
    trailer.text = failure.text;
    if (!session_.send_letter(trailer)) (void)session_.drain();
  }

  [[nodiscard]] const Digest& digest() const { return digest_; }

 private:
  MaybeFailure negotiate(Device& device, const std::string& name) {
    Letter offer;
    MaybeFailure failure = session_.wait_letter(offer);
    if (failure) return failure;
    chunk_bytes_ = offer.chunk_bytes;
    slot_count_ = offer.slot_count;
    const std::uint64_t staging = std::uint64_t{chunk_bytes_} * slot_count_;
    const auto regions = session_.channel().remote_memories();
    if (offer.type != LetterType::kOffer || staging == 0 || staging > kMaxStagingBytes ||
        regions.size() < 2 || regions[1].bytes() < staging) {
      return Failure{kExitTransfer, "the receiver offered no usable buffer"};
    }
    Result<Memory> memory = device.allocate(staging, MemoryAccess::kLocal);
    if (!memory) {
      return Failure{kExitConnect, "no memory for " + std::to_string(staging) +
                                       " bytes of staging: " + memory.error().to_string()};
    }
    staging_ = std::move(*memory);
    busy_.assign(slot_count_, false);
    Letter header;
    header.type = LetterType::kHeader;
    header.file_bytes = source_.bytes();
    header.text = name;
    failure = session_.send_letter(header);
    while (!failure && session_.accepted_count == 0) {
      failure = session_.pump();
      if (!failure) failure = check_early_result();
    }
    return failure;
  }

  MaybeFailure send_chunks() {
    ProgressBar bar(source_.bytes(), session_.now());
    std::uint64_t offset = 0, confirmed = 0;
    const std::uint64_t total = source_.bytes();
    const std::uint64_t chunks = (total + chunk_bytes_ - 1) / chunk_bytes_;
    std::uint64_t next = 0;
    // The end is when the receiver has taken every chunk; until then it may still object.
    while (next < chunks || session_.slot_free_count < chunks) {
      const auto slot = static_cast<std::uint32_t>(next % slot_count_);
      const bool remote_free = next - session_.slot_free_count < slot_count_;
      if (next < chunks && remote_free && !busy_[slot]) {
        const std::uint64_t bytes = std::min<std::uint64_t>(chunk_bytes_, total - offset);
        const std::span<std::byte> buffer(staging_.data() + std::uint64_t{slot} * chunk_bytes_,
                                          bytes);
        MaybeFailure failure = source_.read(offset, buffer);
        if (failure) return failure;
        hash_.update(buffer);
        busy_[slot] = true;
        failure = session_.put_chunk(staging_.range(std::uint64_t{slot} * chunk_bytes_, bytes),
                                     session_.channel().remote_memories()[1].range(
                                         std::uint64_t{slot} * chunk_bytes_, bytes),
                                     slot);
        if (failure) return failure;
        offset += bytes;
        ++next;
      }
      MaybeFailure failure = session_.pump();
      if (failure) return failure;
      failure = check_early_result();
      if (failure) return failure;
      for (const std::uint32_t done : session_.slots_completed) busy_[done] = false;
      session_.slots_completed.clear();
      if (session_.slot_free_count > next) {
        return Failure{kExitTransfer, "the receiver freed more than it was sent"};
      }
      confirmed = std::min(total, session_.slot_free_count * chunk_bytes_);
      bar.update(confirmed, session_.now());
    }
    return std::nullopt;
  }

  MaybeFailure check_early_result() {
    Letter letter;
    if (!session_.take_letter(letter)) return std::nullopt;
    if (letter.type == LetterType::kResult && !letter.ok) return refusal(letter);
    return Failure{kExitTransfer, "the receiver answered out of turn"};
  }

  static MaybeFailure refusal(const Letter& letter) {
    const bool mismatch = letter.exit_code == kExitMismatch;
    return Failure{mismatch ? kExitMismatch : kExitFile,
                   "the receiver gave up: " + printable(letter.text)};
  }

  MaybeFailure judge(const Letter& result) {
    if (result.type != LetterType::kResult) {
      return Failure{kExitTransfer, "the receiver answered out of turn"};
    }
    if (!result.ok) return refusal(result);
    if (result.digest != digest_) {
      return Failure{kExitMismatch, "the received file has SHA-256 " + to_hex(result.digest) +
                                        ", this one " + to_hex(digest_)};
    }
    return std::nullopt;
  }

  FileSession& session_;
  SourceFile& source_;
  Memory staging_;
  std::vector<bool> busy_;
  std::uint32_t chunk_bytes_ = 0;
  std::uint32_t slot_count_ = 0;
  Sha256 hash_;
  Digest digest_{};
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
  FileSession session;
  failure = session.prepare(*device);
  if (failure) return failure;
  ChannelOptions options = channel_options(arguments.common, 4);
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
  print_report(report);
  if (arguments.common.json) print_report_json(report);
  return std::nullopt;
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
