#include "softverbs/allocation_counter.h"
#include "softverbs/soft_bed.h"

// What a connected QP costs while nothing happens on it.
namespace braid::softverbs::testing {
namespace {

class IdleMemory : public SoftBed {
 protected:
  static constexpr int kQps = 64;

  /// Bytes per QP in RTS, verbs object and engine together, averaged over kQps.
  std::int64_t bytes_per_qp(const ibv_qp_cap& cap) {
    ibv_cq* cq = make_cq(0, 1024);
    std::vector<ibv_qp*> qps;
    qps.reserve(kQps);
    const std::int64_t before = braid::testing::allocated_bytes();
    for (int i = 0; i < kQps; ++i) {
      ibv_qp_init_attr init = rc_attr(cq);
      init.cap = cap;
      qps.push_back(api(0).create_qp(pds[0], &init));
      ibv_qp_attr attr = attributes_towards(1, 0x123);
      attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
      raise(0, qps.back(), attr);
    }
    const std::int64_t used = braid::testing::allocated_bytes() - before;
    for (ibv_qp* qp : qps) EXPECT_EQ(api(0).destroy_qp(qp), 0);
    EXPECT_EQ(braid::testing::allocated_bytes(), before) << "a destroyed QP leaves nothing behind";
    return used / kQps;
  }
};

TEST_F(IdleMemory, Depth128_AtMost64KiBPerQp) {
  const std::int64_t plain = bytes_per_qp({128, 128, 1, 1, 0});
  EXPECT_GT(plain, 128 * 32) << "the counter does not count";
  EXPECT_LE(plain, 64 << 10);
  RecordProperty("plain_bytes", std::to_string(plain));
  const std::int64_t with_inline = bytes_per_qp({128, 128, 4, 4, 64});
  EXPECT_LE(with_inline, 64 << 10);
  RecordProperty("sge4_inline64_bytes", std::to_string(with_inline));
}

}  // namespace
}  // namespace braid::softverbs::testing
