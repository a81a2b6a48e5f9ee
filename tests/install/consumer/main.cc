// Uses the installed package as a stranger would: every public header, and calls into each part of
// the library, so that a header, an object or a dependency that was not installed fails here.
#include <cstdio>
#include <string>

#include "public_headers.h"

int main() {
  if (!(braid::library_version() == braid::kHeaderVersion)) {
    std::puts("consumer: the library and its headers are of different versions");
    return 1;
  }
  std::string why;
  braid::SoftDeviceOptions options;
  options.mtu_bytes = 1000;  // no path MTU of any device, so nothing may be opened
  const auto device = braid::Device::open_soft(options, &why);
  if (device || why.empty()) {
    std::puts("consumer: a device with a wrong MTU opened, or failed without a reason");
    return 1;
  }
  std::printf("consumer: braid %u.%u.%u, %s\n", braid::kHeaderVersion.major_number,
              braid::kHeaderVersion.minor_number, braid::kHeaderVersion.patch_number,
              braid::to_string(device.error().code()).data());
  return 0;
}
