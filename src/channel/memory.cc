#include <braid/memory.h>
#include <sys/mman.h>

#include <utility>

#include "channel/device_core.h"

namespace braid {

Memory::Memory() noexcept = default;

Memory::~Memory() { release(); }

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  release();
  device_ = std::move(other.device_);
  registration_ = std::exchange(other.registration_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  lkey_ = std::exchange(other.lkey_, 0);
  rkey_ = std::exchange(other.rkey_, 0);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  return *this;
}

void Memory::release() noexcept {
  if (registration_ != nullptr) device_->api().dereg_mr(static_cast<ibv_mr*>(registration_));
  // After the device has let go of the pages, and not before.
  if (mapped_bytes_ != 0) ::munmap(data_, mapped_bytes_);
  registration_ = nullptr;
  mapped_bytes_ = 0;
  device_.reset();
}

}  // namespace braid
