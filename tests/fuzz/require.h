#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the fuzz target with a sentence when an invariant does not hold, with or without NDEBUG.
#define BRAID_REQUIRE(condition)                                                     \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)
