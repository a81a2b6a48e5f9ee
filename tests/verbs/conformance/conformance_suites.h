#pragma once

#include "verbs/conformance/conformance_fixture.h"

/// Instantiates one suite over one bed, as <Bed>/<Suite>.
#define BRAID_CONFORMANCE_SUITE(Bed, Suite, factory)                             \
  INSTANTIATE_TEST_SUITE_P(Bed, Suite, testing::Values(BedParam{#Bed, factory}), \
                           testing::PrintToStringParamName())

/// Instantiates every suite over the bed that `factory` makes. Use it in namespace
/// braid::verbs::conformance, in a program that links braid_verbs_conformance.
#define BRAID_CONFORMANCE(Bed, factory)                 \
  BRAID_CONFORMANCE_SUITE(Bed, DataTransfer, factory);  \
  BRAID_CONFORMANCE_SUITE(Bed, GatherScatter, factory); \
  BRAID_CONFORMANCE_SUITE(Bed, Atomics, factory);       \
  BRAID_CONFORMANCE_SUITE(Bed, Ordering, factory);      \
  BRAID_CONFORMANCE_SUITE(Bed, QueueLimits, factory);   \
  BRAID_CONFORMANCE_SUITE(Bed, SharedReceive, factory); \
  BRAID_CONFORMANCE_SUITE(Bed, Events, factory);        \
  BRAID_CONFORMANCE_SUITE(Bed, StateMachine, factory);  \
  BRAID_CONFORMANCE_SUITE(Bed, LocalErrors, factory);   \
  BRAID_CONFORMANCE_SUITE(Bed, RemoteErrors, factory);  \
  BRAID_CONFORMANCE_SUITE(Bed, RetryErrors, factory);   \
  BRAID_CONFORMANCE_SUITE(Bed, Registration, factory);  \
  BRAID_CONFORMANCE_SUITE(Bed, Paths, factory);         \
  BRAID_CONFORMANCE_SUITE(Bed, HugeMessages, factory)
