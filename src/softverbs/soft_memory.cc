#include <cerrno>
#include <new>

#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

// What the device does not have. The optional flags (relaxed ordering) say that it may be ignored.
constexpr int kUnsupportedAccess = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND;

int errno_of(Status status) noexcept {
  return status.code() == StatusCode::kOutOfMemory ? ENOMEM : EINVAL;
}

}  // namespace

ibv_pd* SoftContext::alloc_pd() noexcept {
  auto* pd = new (std::nothrow) SoftPd{};
  const std::lock_guard lock(driver_->mutex());
  if (pd == nullptr || pd_count_ == SoftLimits::kMaxPd) {
    delete pd;
    errno = ENOMEM;
    return nullptr;
  }
  pd->context = handle();
  pd->handle = next_handle_++;
  pd->id = roce::PdId{next_pd_++};
  ++pd_count_;
  ++object_count_;
  return pd;
}

int SoftContext::dealloc_pd(ibv_pd* pd) noexcept {
  {
    const std::lock_guard lock(driver_->mutex());
    if (soft(pd)->children != 0) return EBUSY;
    --pd_count_;
    --object_count_;
  }
  delete soft(pd);
  return 0;
}

ibv_mr* SoftContext::reg_mr(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                            int access) noexcept {
  if ((access & kUnsupportedAccess) != 0 || bytes == 0) {
    errno = bytes == 0 ? EINVAL : EOPNOTSUPP;
    return nullptr;
  }
  auto* mr = new (std::nothrow) SoftMr{};
  if (mr == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  const std::lock_guard lock(driver_->mutex());
  const auto key = driver_->engine().memory().insert(soft(pd)->id, address, iova, bytes, access);
  if (!key) {
    delete mr;
    errno = errno_of(key.error());
    return nullptr;
  }
  mr->context = handle();
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->handle = next_handle_++;
  mr->lkey = mr->rkey = *key;
  mr->iova = iova;
  mr->access = access;
  ++soft(pd)->children;
  ++object_count_;
  return mr;
}

int SoftContext::rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
                          int access) noexcept {
  constexpr int kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  const bool translation = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool new_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (flags == 0 || (flags & ~kKnown) != 0 || (translation && bytes == 0) ||
      (new_access && (access & kUnsupportedAccess) != 0)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  SoftMr& own = *soft(mr);
  const std::lock_guard lock(driver_->mutex());
  ibv_pd* target_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd;
  roce::MemoryRegion region;
  region.access = new_access ? access : own.access;
  region.base = static_cast<std::uint8_t*>(translation ? address : mr->addr);
  region.length_bytes = translation ? bytes : mr->length;
  region.iova = translation ? reinterpret_cast<std::uint64_t>(address) : own.iova;
  if ((region.access & IBV_ACCESS_ZERO_BASED) != 0) region.iova = 0;
  region.pd = soft(target_pd)->id;
  const auto key = driver_->engine().memory().replace(mr->lkey, region);
  if (!key) {
    errno = errno_of(key.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  --soft(mr->pd)->children;
  ++soft(target_pd)->children;
  mr->pd = target_pd;
  mr->addr = region.base;
  mr->length = region.length_bytes;
  mr->lkey = mr->rkey = *key;
  own.iova = region.iova;
  own.access = region.access;
  return 0;
}

int SoftContext::dereg_mr(ibv_mr* mr) noexcept {
  {
    const std::lock_guard lock(driver_->mutex());
    if (!driver_->engine().memory().erase(mr->lkey)) return EINVAL;
    --soft(mr->pd)->children;
    --object_count_;
  }
  delete soft(mr);
  return 0;
}

}  // namespace braid::softverbs
