#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "softverbs/soft_bed.h"

// Posting through ibv_wr_*() and polling through ibv_cq_ex.
namespace braid::softverbs::testing {
namespace {

constexpr std::uint64_t kAllOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

class SoftExtended : public SoftBed {
 protected:
  void SetUp() override {
    SoftBed::SetUp();
    source_mr_ = make_mr(0, source_);
    target_mr_ = make_mr(1, target_);
    for (std::size_t i = 0; i < source_.size(); ++i) source_[i] = static_cast<std::uint8_t>(i * 7);
    near_cq_ = make_cq(0);
    far_cq_ = make_cq(1);
    ibv_qp* near = make_extended(kAllOps);
    ASSERT_NE(near, nullptr);
    at_end([this, near] { EXPECT_EQ(api(0).destroy_qp(near), 0); });
    far_ = make_qp(1, far_cq_);
    connect(near, far_);
    ex_ = ibv_qp_to_qp_ex(near);
    ASSERT_NE(ex_, nullptr);
    ex_->wr_flags = IBV_SEND_SIGNALED;
  }

  ibv_qp* make_extended(std::uint64_t operations) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = near_cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = ibv_qp_cap{4, 4, 2, 2, 32};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pds[0];
    attr.send_ops_flags = operations;
    return ibv_create_qp_ex(contexts[0], &attr);
  }
  static std::uint64_t address(const std::vector<std::uint8_t>& bytes, std::size_t offset = 0) {
    return reinterpret_cast<std::uint64_t>(bytes.data()) + offset;
  }
  void post_receive(std::uint64_t id, std::uint32_t offset, std::uint32_t bytes) {
    ibv_sge sge{address(target_, offset), bytes, target_mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(far_, &wr, &bad), 0);
  }
  bool same(std::size_t from, std::size_t to, std::size_t bytes) const {
    return std::memcmp(source_.data() + from, target_.data() + to, bytes) == 0;
  }
  std::uint64_t word(const std::vector<std::uint8_t>& bytes, std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }

  std::vector<std::uint8_t> source_ = std::vector<std::uint8_t>(8192);
  std::vector<std::uint8_t> target_ = std::vector<std::uint8_t>(8192);
  ibv_mr* source_mr_ = nullptr;
  ibv_mr* target_mr_ = nullptr;
  ibv_cq* near_cq_ = nullptr;
  ibv_cq* far_cq_ = nullptr;
  ibv_qp* far_ = nullptr;
  ibv_qp_ex* ex_ = nullptr;
};

TEST_F(SoftExtended, WritesAndSends_OneChainInOrder) {
  post_receive(70, 4096, 512);
  post_receive(71, 0, 0);
  ibv_wr_start(ex_);
  ex_->wr_id = 1;
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
  ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_), 3000);
  ex_->wr_id = 2;
  ibv_wr_send_imm(ex_, htonl(0xABCD));
  const ibv_sge pieces[2] = {{address(source_, 100), 200, source_mr_->lkey},
                             {address(source_, 1000), 50, source_mr_->lkey}};
  ibv_wr_set_sge_list(ex_, 2, pieces);
  ex_->wr_id = 3;
  ibv_wr_rdma_write_imm(ex_, target_mr_->rkey, address(target_, 5000), htonl(7));
  ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_, 64), 64);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);

  const auto sends = drain(near_cq_);
  ASSERT_EQ(sends.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sends[i].wr_id, i + 1);
    EXPECT_EQ(sends[i].status, IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(same(0, 0, 3000));
  EXPECT_TRUE(same(100, 4096, 200));
  EXPECT_TRUE(same(1000, 4296, 50));
  EXPECT_TRUE(same(64, 5000, 64));
  const auto receives = drain(far_cq_);
  ASSERT_EQ(receives.size(), 2U);
  EXPECT_EQ(receives[0].wr_id, 70U);
  EXPECT_EQ(receives[0].byte_len, 250U);
  EXPECT_EQ(ntohl(receives[0].imm_data), 0xABCDU);
  EXPECT_EQ(receives[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ntohl(receives[1].imm_data), 7U);
}

TEST_F(SoftExtended, ReadAndAtomics_ResultsArrive) {
  const std::uint64_t ten = 10;
  std::memcpy(target_.data(), &ten, sizeof ten);
  ibv_wr_start(ex_);
  ibv_wr_atomic_fetch_add(ex_, target_mr_->rkey, address(target_), 5);
  ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_), 8);
  ibv_wr_atomic_cmp_swp(ex_, target_mr_->rkey, address(target_), 15, 99);
  ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_, 8), 8);
  ibv_wr_rdma_read(ex_, target_mr_->rkey, address(target_));
  ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_, 16), 8);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  ASSERT_EQ(drain(near_cq_).size(), 3U);
  EXPECT_EQ(word(source_, 0), 10U);
  EXPECT_EQ(word(source_, 8), 15U);
  EXPECT_EQ(word(source_, 16), 99U);
}

TEST_F(SoftExtended, InlineData_CopiedBeforeComplete) {
  std::uint8_t first[20];
  std::uint8_t second[12];
  std::memset(first, 1, sizeof first);
  std::memset(second, 2, sizeof second);
  ibv_wr_start(ex_);
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
  const ibv_data_buf list[2] = {{first, sizeof first}, {second, sizeof second}};
  ibv_wr_set_inline_data_list(ex_, 2, list);
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_, 100));
  ibv_wr_set_inline_data(ex_, first, sizeof first);
  std::memset(first, 9, sizeof first);
  std::memset(second, 9, sizeof second);
  ASSERT_EQ(ibv_wr_complete(ex_), 0);
  ASSERT_EQ(drain(near_cq_).size(), 2U);
  EXPECT_EQ(target_[0], 1);
  EXPECT_EQ(target_[19], 1);
  EXPECT_EQ(target_[20], 2);
  EXPECT_EQ(target_[31], 2);
  EXPECT_EQ(target_[100], 1);
}

TEST_F(SoftExtended, InlineDataOnePastTheLimit_NothingIsPosted) {
  std::uint8_t bytes[33] = {};
  ibv_wr_start(ex_);
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
  ibv_wr_set_inline_data(ex_, bytes, 32);
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
  ibv_wr_set_inline_data(ex_, bytes, 33);
  EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
  EXPECT_TRUE(drain(near_cq_).empty());
}

TEST_F(SoftExtended, SgesOnePastTheLimit_NothingIsPosted) {
  const ibv_sge sge{address(source_), 1, source_mr_->lkey};
  const ibv_sge pieces[3] = {sge, sge, sge};
  ibv_wr_start(ex_);
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
  ibv_wr_set_sge_list(ex_, 3, pieces);
  EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
  EXPECT_TRUE(drain(near_cq_).empty());
}

TEST_F(SoftExtended, WrsOnePastTheQueue_NothingIsPostedAndTheNextStartWorks) {
  const auto post = [&](int count) {
    ibv_wr_start(ex_);
    for (int i = 0; i < count; ++i) {
      ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
      ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_), 8);
    }
    return ibv_wr_complete(ex_);
  };
  EXPECT_EQ(post(5), ENOMEM);
  EXPECT_TRUE(drain(near_cq_).empty());
  EXPECT_EQ(post(4), 0);
  EXPECT_EQ(post(1), ENOMEM) << "all four slots are still taken";
  EXPECT_EQ(drain(near_cq_).size(), 4U);
  EXPECT_EQ(post(4), 0);
  EXPECT_EQ(drain(near_cq_).size(), 4U);
}

TEST_F(SoftExtended, Abort_ForgetsWhatWasCollected) {
  ibv_wr_start(ex_);
  ibv_wr_rdma_write(ex_, target_mr_->rkey, address(target_));
  ibv_wr_set_sge(ex_, source_mr_->lkey, address(source_), 8);
  ibv_wr_abort(ex_);
  EXPECT_TRUE(drain(near_cq_).empty());
  ibv_wr_start(ex_);
  EXPECT_EQ(ibv_wr_complete(ex_), 0);
  EXPECT_TRUE(drain(near_cq_).empty());
}

TEST_F(SoftExtended, PlainQp_HasNoExtendedFace) { EXPECT_EQ(ibv_qp_to_qp_ex(far_), nullptr); }

TEST_F(SoftExtended, OperationsNotAskedFor_AreNull) {
  ibv_qp* qp = make_extended(IBV_QP_EX_WITH_SEND);
  ASSERT_NE(qp, nullptr);
  EXPECT_NE(soft(qp)->wr_send, nullptr);
  EXPECT_EQ(soft(qp)->wr_rdma_write, nullptr);
  EXPECT_EQ(soft(qp)->wr_bind_mw, nullptr);
  EXPECT_EQ(api(0).destroy_qp(qp), 0);
  errno = 0;
  EXPECT_EQ(make_extended(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SoftExtended, PollThroughCqEx_FieldsOneByOne) {
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 16;
  cq_attr.cq_context = this;
  cq_attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(contexts[1], &cq_attr);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr start{};
  EXPECT_EQ(ibv_start_poll(cq, &start), ENOENT);

  ibv_qp_init_attr init = rc_attr(ibv_cq_ex_to_cq(cq));
  ibv_qp* receiver = api(1).create_qp(pds[1], &init);
  ASSERT_NE(receiver, nullptr);
  ibv_qp* sender = make_qp(0, near_cq_);
  connect(sender, receiver);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  for (receive.wr_id = 40; receive.wr_id < 42; ++receive.wr_id) {
    ASSERT_EQ(ibv_post_recv(receiver, &receive, &bad_receive), 0);
  }
  ibv_sge sge{address(source_), 77, source_mr_->lkey};
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.sg_list = &sge;
  write.num_sge = 1;
  write.wr.rdma.remote_addr = address(target_);
  write.wr.rdma.rkey = target_mr_->rkey;
  ibv_send_wr* bad = nullptr;
  for (std::uint32_t i = 0; i < 2; ++i) {
    write.imm_data = htonl(i);
    ASSERT_EQ(ibv_post_send(sender, &write, &bad), 0);
  }
  settle();

  ASSERT_EQ(ibv_start_poll(cq, &start), 0);
  EXPECT_EQ(cq->wr_id, 40U);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 77U);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), receiver->qp_num);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(ntohl(ibv_wc_read_imm_data(cq)), 0U);
  ASSERT_EQ(ibv_next_poll(cq), 0);
  EXPECT_EQ(cq->wr_id, 41U);
  EXPECT_EQ(ntohl(ibv_wc_read_imm_data(cq)), 1U);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  EXPECT_EQ(api(1).destroy_qp(receiver), 0);
  EXPECT_EQ(api(1).destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

}  // namespace
}  // namespace braid::softverbs::testing
