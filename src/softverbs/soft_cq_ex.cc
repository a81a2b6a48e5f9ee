// Polling through ibv_cq_ex: one completion at a time, read field by field.

#include <cerrno>

#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

int next_poll(ibv_cq_ex* cq) noexcept {
  SoftCq& own = *soft(cq);
  const int polled = soft_poll_cq(public_cq(own), 1, &own.current);
  if (polled < 0) return -polled;
  if (polled == 0) return ENOENT;
  own.status = own.current.status;
  own.wr_id = own.current.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) noexcept {
  if (attr->comp_mask != 0) return EINVAL;
  return next_poll(cq);
}

void end_poll(ibv_cq_ex* /*cq*/) noexcept {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept { return soft(cq)->current.opcode; }
std::uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept { return soft(cq)->current.vendor_err; }
std::uint32_t read_byte_len(ibv_cq_ex* cq) noexcept { return soft(cq)->current.byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) noexcept { return soft(cq)->current.imm_data; }
std::uint32_t read_qp_num(ibv_cq_ex* cq) noexcept { return soft(cq)->current.qp_num; }
std::uint32_t read_src_qp(ibv_cq_ex* cq) noexcept { return soft(cq)->current.src_qp; }
unsigned read_wc_flags(ibv_cq_ex* cq) noexcept { return soft(cq)->current.wc_flags; }
std::uint32_t read_slid(ibv_cq_ex* cq) noexcept { return soft(cq)->current.slid; }
std::uint8_t read_sl(ibv_cq_ex* cq) noexcept { return soft(cq)->current.sl; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* cq) noexcept {
  return soft(cq)->current.dlid_path_bits;
}

}  // namespace

void install_poll_functions(SoftCq& cq) noexcept {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
}

}  // namespace braid::softverbs
