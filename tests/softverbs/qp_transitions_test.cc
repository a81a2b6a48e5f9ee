#include <cerrno>
#include <string>

#include "softverbs/soft_bed.h"

// Every pair of states of an RC QP, with every attribute. The table is the specification's for RC,
// less alternate paths and what the device keeps fixed in SQD (port, rd_atomic depths).
namespace braid::softverbs::testing {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int kPlace = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kLive = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
constexpr Transition kLegal[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kPlace, IBV_QP_CUR_STATE},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kPlace | IBV_QP_CUR_STATE},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask & ~IBV_QP_STATE,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_CUR_STATE},
    {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask & ~IBV_QP_STATE, kLive},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kLive},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_CUR_STATE},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kLive},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     kLive | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY},
};
constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                    IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
constexpr int kLastBit = IBV_QP_RATE_LIMIT;

/// Null when the pair is no transition.
const Transition* legal(ibv_qp_state from, ibv_qp_state to) {
  static constexpr Transition kEnd{IBV_QPS_UNKNOWN, IBV_QPS_UNKNOWN, 0, IBV_QP_CUR_STATE};
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return &kEnd;
  for (const Transition& transition : kLegal) {
    if (transition.from == from && transition.to == to) return &transition;
  }
  return nullptr;
}

class QpTransitions : public SoftBed {
 protected:
  void SetUp() override {
    SoftBed::SetUp();
    cq_ = make_cq(0);
    qp_ = make_qp(0, cq_);
  }

  ibv_qp_attr attr(ibv_qp_state from) {
    ibv_qp_attr attr = attributes_towards(1, 0x123);
    attr.cur_qp_state = from;
    return attr;
  }
  void bring_to(ibv_qp_state state) {
    ASSERT_EQ(modify(0, qp_, {}, IBV_QPS_RESET, IBV_QP_STATE), 0);
    const ibv_qp_attr all = attr(state);
    const auto step = [&](ibv_qp_state to, int mask) {
      ASSERT_EQ(modify(0, qp_, all, to, mask), 0) << "on the way to state " << to;
    };
    if (state == IBV_QPS_ERR) step(IBV_QPS_ERR, IBV_QP_STATE);
    if (state == IBV_QPS_RESET || state == IBV_QPS_ERR) return;
    step(IBV_QPS_INIT, kInitMask);
    if (state == IBV_QPS_INIT) return;
    step(IBV_QPS_RTR, kRtrMask);
    if (state == IBV_QPS_RTR) return;
    step(IBV_QPS_RTS, kRtsMask);
    if (state == IBV_QPS_SQD) step(IBV_QPS_SQD, IBV_QP_STATE);
  }
  /// Tries the transition from a QP in `from`, and checks the state that it is in afterwards.
  void try_mask(ibv_qp_state from, ibv_qp_state to, int mask, int expected) {
    SCOPED_TRACE("state " + std::to_string(from) + " to " + std::to_string(to) + ", mask " +
                 std::to_string(mask));
    bring_to(from);
    EXPECT_EQ(modify(0, qp_, attr(from), to, mask | IBV_QP_STATE), expected);
    EXPECT_EQ(state_of(0, qp_), expected == 0 ? to : from);
  }

  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

TEST_F(QpTransitions, RequiredMask_PassesForLegalPairsOnly) {
  for (const ibv_qp_state from : kStates) {
    for (const ibv_qp_state to : kStates) {
      const Transition* transition = legal(from, to);
      if (transition != nullptr) {
        try_mask(from, to, transition->required, 0);
        continue;
      }
      for (const int mask : {0, kInitMask, kRtrMask, kRtsMask}) try_mask(from, to, mask, EINVAL);
    }
  }
}

TEST_F(QpTransitions, AnyRequiredBitMissing_Refused) {
  for (const Transition& transition : kLegal) {
    for (int bit = IBV_QP_CUR_STATE; bit <= kLastBit; bit <<= 1) {
      if ((transition.required & bit) == 0) continue;
      try_mask(transition.from, transition.to, transition.required & ~bit, EINVAL);
    }
  }
}

TEST_F(QpTransitions, EveryOtherBit_TakenWhenOptionalElseRefused) {
  for (const ibv_qp_state from : kStates) {
    for (const ibv_qp_state to : kStates) {
      const Transition* transition = legal(from, to);
      if (transition == nullptr) continue;
      for (int bit = IBV_QP_CUR_STATE; bit <= kLastBit; bit <<= 1) {
        if ((transition->required & bit) != 0) continue;
        const bool taken = (transition->optional & bit) != 0;
        try_mask(from, to, transition->required | bit, taken ? 0 : EINVAL);
      }
    }
  }
}

TEST_F(QpTransitions, CurrentStateThatIsNot_Refused) {
  for (const Transition& transition : kLegal) {
    bring_to(transition.from);
    ibv_qp_attr wrong = attr(IBV_QPS_SQE);
    EXPECT_EQ(
        modify(0, qp_, wrong, transition.to, transition.required | IBV_QP_STATE | IBV_QP_CUR_STATE),
        EINVAL);
    EXPECT_EQ(state_of(0, qp_), transition.from);
  }
}

TEST_F(QpTransitions, WithoutState_StaysAndTakesWhatTheStateAllows) {
  bring_to(IBV_QPS_RTS);
  ibv_qp_attr change = attr(IBV_QPS_RTS);
  change.min_rnr_timer = 31;
  EXPECT_EQ(api(0).modify_qp(qp_, &change, IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(api(0).modify_qp(qp_, &change, IBV_QP_TIMEOUT), EINVAL);
  ibv_qp_attr seen{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(api(0).query_qp(qp_, &seen, IBV_QP_MIN_RNR_TIMER, &init), 0);
  EXPECT_EQ(seen.min_rnr_timer, 31);
  EXPECT_EQ(seen.qp_state, IBV_QPS_RTS);
}

TEST_F(QpTransitions, Values_AtTheLimitPassOnePastItFails) {
  const auto check = [&](ibv_qp_state from, ibv_qp_state to, int mask, auto set, auto limit) {
    SCOPED_TRACE("to state " + std::to_string(to) + " with " + std::to_string(limit));
    for (const bool past : {false, true}) {
      bring_to(from);
      ibv_qp_attr values = attr(from);
      set(values, limit + (past ? 1 : 0));
      EXPECT_EQ(modify(0, qp_, values, to, mask), past ? EINVAL : 0);
    }
  };
  using Attr = ibv_qp_attr;
  const auto u8 = [](int value) { return static_cast<std::uint8_t>(value); };
  check(
      IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, [&](Attr& a, int v) { a.port_num = u8(v); }, 1);
  check(
      IBV_QPS_RESET, IBV_QPS_INIT, kInitMask,
      [](Attr& a, int v) { a.pkey_index = static_cast<std::uint16_t>(v); }, 0);
  check(
      IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask,
      [](Attr& a, int v) { a.path_mtu = static_cast<ibv_mtu>(v); }, 5);
  check(
      IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask,
      [](Attr& a, int v) { a.dest_qp_num = static_cast<std::uint32_t>(v); }, 0xFFFFFF);
  check(
      IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [&](Attr& a, int v) { a.max_dest_rd_atomic = u8(v); },
      SoftLimits::kMaxRdAtomic);
  check(
      IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [&](Attr& a, int v) { a.min_rnr_timer = u8(v); }, 31);
  check(
      IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask,
      [&](Attr& a, int v) { a.ah_attr.grh.sgid_index = u8(v); }, 0);
  check(
      IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, [&](Attr& a, int v) { a.ah_attr.port_num = u8(v); }, 1);
  check(
      IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [&](Attr& a, int v) { a.timeout = u8(v); }, 31);
  check(
      IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [&](Attr& a, int v) { a.retry_cnt = u8(v); }, 7);
  check(
      IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [&](Attr& a, int v) { a.rnr_retry = u8(v); }, 7);
  check(
      IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, [&](Attr& a, int v) { a.max_rd_atomic = u8(v); },
      SoftLimits::kMaxRdAtomic);
}

TEST_F(QpTransitions, AddressWithoutGlobalRoute_Refused) {
  bring_to(IBV_QPS_INIT);
  ibv_qp_attr local = attr(IBV_QPS_INIT);
  local.ah_attr.is_global = 0;
  EXPECT_EQ(modify(0, qp_, local, IBV_QPS_RTR, kRtrMask), EINVAL);
}

TEST_F(QpTransitions, AddressOfAnotherFamily_NetworkUnreachable) {
  bring_to(IBV_QPS_INIT);
  ibv_qp_attr other = attr(IBV_QPS_INIT);
  other.ah_attr.grh.dgid = ibv_gid{};
  other.ah_attr.grh.dgid.raw[0] = 0xFD;
  EXPECT_EQ(modify(0, qp_, other, IBV_QPS_RTR, kRtrMask), ENETUNREACH);
  EXPECT_EQ(state_of(0, qp_), IBV_QPS_INIT);
}

}  // namespace
}  // namespace braid::softverbs::testing
