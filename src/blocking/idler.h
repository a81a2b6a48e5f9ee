#pragma once

#include <braid/time.h>

#include <thread>

namespace braid {

/// Waiting in composition roots that poll: the reaction is quick while work flows, and a quiet
/// channel costs little.
class Idler {
 public:
  /// Call once per round with whether anything moved. Yields, and after a while sleeps 50 us.
  void on_round(bool moved) noexcept {
    if (moved) {
      idle_rounds_ = 0;
    } else if (++idle_rounds_ < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr int kYields = 2000;
  int idle_rounds_ = 0;
};

}  // namespace braid
