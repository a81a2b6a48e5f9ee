// Posting through ibv_wr_start() .. ibv_wr_complete(): WRs are collected in arrays of the QP and
// posted as one chain, so that either all of them are posted or none.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

SoftQpStaging& staging_of(ibv_qp_ex* qp) noexcept { return *soft(qp)->staging; }

void note_error(SoftQpStaging& staging, int error) noexcept {
  if (staging.error == 0) staging.error = error;
}

/// Opens a WR with the wr_id and flags that the application has set. Null when the queue is full.
ibv_send_wr* open_wr(ibv_qp_ex* qp, ibv_wr_opcode opcode) noexcept {
  SoftQpStaging& staging = staging_of(qp);
  if (staging.count == staging.capacity) {
    note_error(staging, ENOMEM);
    return nullptr;
  }
  ibv_send_wr& wr = staging.wrs[staging.count++];
  wr = ibv_send_wr{};
  wr.wr_id = qp->wr_id;
  wr.send_flags = qp->wr_flags;
  wr.opcode = opcode;
  return &wr;
}

void wr_start(ibv_qp_ex* qp) noexcept {
  staging_of(qp).count = 0;
  staging_of(qp).error = 0;
}

void wr_abort(ibv_qp_ex* qp) noexcept { wr_start(qp); }

int wr_complete(ibv_qp_ex* qp) noexcept {
  SoftQp& own = *soft(qp);
  SoftQpStaging& staging = *own.staging;
  if (staging.error != 0) return staging.error;
  if (staging.count == 0) return 0;
  for (std::uint32_t i = 0; i + 1 < staging.count; ++i) staging.wrs[i].next = &staging.wrs[i + 1];
  DeviceDriver& driver = own.owner->driver();
  const std::lock_guard lock(driver.mutex());
  if (roce::send_room_of(*own.engine_qp) < staging.count) return ENOMEM;
  const ibv_send_wr* bad = nullptr;
  const int error = driver.engine().post_send(*own.engine_qp, staging.wrs.get(), &bad);
  driver.after_post();
  return error;
}

void wr_send(ibv_qp_ex* qp) noexcept { open_wr(qp, IBV_WR_SEND); }

void wr_send_imm(ibv_qp_ex* qp, __be32 imm) noexcept {
  if (ibv_send_wr* wr = open_wr(qp, IBV_WR_SEND_WITH_IMM)) wr->imm_data = imm;
}

void open_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
               __be32 imm) noexcept {
  ibv_send_wr* wr = open_wr(qp, opcode);
  if (wr == nullptr) return;
  wr->wr.rdma.rkey = rkey;
  wr->wr.rdma.remote_addr = address;
  wr->imm_data = imm;
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) noexcept {
  open_rdma(qp, IBV_WR_RDMA_WRITE, rkey, address, 0);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       __be32 imm) noexcept {
  open_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, imm);
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) noexcept {
  open_rdma(qp, IBV_WR_RDMA_READ, rkey, address, 0);
}

void open_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
                 std::uint64_t compare_add, std::uint64_t swap) noexcept {
  ibv_send_wr* wr = open_wr(qp, opcode);
  if (wr == nullptr) return;
  wr->wr.atomic.rkey = rkey;
  wr->wr.atomic.remote_addr = address;
  wr->wr.atomic.compare_add = compare_add;
  wr->wr.atomic.swap = swap;
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                       std::uint64_t compare, std::uint64_t swap) noexcept {
  open_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                         std::uint64_t add) noexcept {
  open_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
}

/// The WR opened last and its slot in the gather array. The setters follow an opener directly.
struct Slot {
  ibv_send_wr* wr;
  ibv_sge* sges;
  std::uint8_t* inline_data;
};

Slot newest(SoftQpStaging& staging) noexcept {
  const std::size_t index = staging.count - 1;
  return {&staging.wrs[index], staging.sges.get() + index * (staging.max_sge + 1),
          staging.inline_data.get() + index * staging.max_inline_bytes};
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) noexcept {
  SoftQpStaging& staging = staging_of(qp);
  if (staging.error != 0) return;
  if (count > staging.max_sge) {
    note_error(staging, EINVAL);
    return;
  }
  const Slot slot = newest(staging);
  std::copy_n(list, count, slot.sges);
  slot.wr->sg_list = slot.sges;
  slot.wr->num_sge = static_cast<int>(count);
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address,
                std::uint32_t bytes) noexcept {
  const ibv_sge sge{address, bytes, lkey};
  wr_set_sge_list(qp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) noexcept {
  SoftQpStaging& staging = staging_of(qp);
  if (staging.error != 0) return;
  const Slot slot = newest(staging);
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].length > staging.max_inline_bytes - total) {
      note_error(staging, EINVAL);
      return;
    }
    if (list[i].length != 0) {
      std::memcpy(slot.inline_data + total, list[i].addr, list[i].length);
    }
    total += list[i].length;
  }
  // Copied now, since the application may reuse its buffer at once; the engine copies again.
  slot.sges[0] = ibv_sge{reinterpret_cast<std::uint64_t>(slot.inline_data),
                         static_cast<std::uint32_t>(total), 0};
  slot.wr->sg_list = slot.sges;
  slot.wr->num_sge = staging.max_sge == 0 && total == 0 ? 0 : 1;
  slot.wr->send_flags |= IBV_SEND_INLINE;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* address, std::size_t bytes) noexcept {
  const ibv_data_buf buffer{address, bytes};
  wr_set_inline_data_list(qp, 1, &buffer);
}

}  // namespace

void install_wr_functions(SoftQp& qp, std::uint64_t send_ops) noexcept {
  const auto has = [send_ops](std::uint64_t op) { return (send_ops & op) != 0; };
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  if (has(IBV_QP_EX_WITH_SEND)) qp.wr_send = wr_send;
  if (has(IBV_QP_EX_WITH_SEND_WITH_IMM)) qp.wr_send_imm = wr_send_imm;
  if (has(IBV_QP_EX_WITH_RDMA_WRITE)) qp.wr_rdma_write = wr_rdma_write;
  if (has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)) qp.wr_rdma_write_imm = wr_rdma_write_imm;
  if (has(IBV_QP_EX_WITH_RDMA_READ)) qp.wr_rdma_read = wr_rdma_read;
  if (has(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)) qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  if (has(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)) qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
}

}  // namespace braid::softverbs
