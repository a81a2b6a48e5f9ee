#pragma once

#include <cstdint>

// The build reads the project's version from these three lines.
#define BRAID_VERSION_MAJOR 0
#define BRAID_VERSION_MINOR 1
#define BRAID_VERSION_PATCH 0

namespace braid {

/// Version as semver.org counts: below 1.0.0 a minor step may break callers.
struct Version {
  std::uint32_t major_number = 0;
  std::uint32_t minor_number = 0;
  std::uint32_t patch_number = 0;
  friend constexpr bool operator==(const Version&, const Version&) noexcept = default;
};

/// Version of these headers.
inline constexpr Version kHeaderVersion{BRAID_VERSION_MAJOR, BRAID_VERSION_MINOR,
                                        BRAID_VERSION_PATCH};

/// Version of the library that is linked or loaded; differs from kHeaderVersion when a program
/// runs with another build of the shared library than it was compiled with.
[[nodiscard]] Version library_version() noexcept;

}  // namespace braid
