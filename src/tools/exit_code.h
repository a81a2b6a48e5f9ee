#pragma once

namespace braid::tools {

/// Exit codes of braid_send and braid_recv; --help lists them.
enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 2,        // the command line is wrong
  kExitFile = 3,         // a local file or its disk failed, on either side
  kExitConnect = 4,      // no connection: unreachable, refused, options disagree, device unusable
  kExitTransfer = 5,     // the connection broke or fell silent
  kExitMismatch = 6,     // the bytes that arrived are not those that were sent
  kExitInterrupt = 130,  // SIGINT or SIGTERM
};

inline constexpr const char* kExitCodeHelp =
    "Exit codes: 0 done and verified, 2 wrong usage, 3 a file or disk failed, 4 no connection,\n"
    "5 the transfer broke, 6 the received bytes differ, 130 interrupted.";

}  // namespace braid::tools
