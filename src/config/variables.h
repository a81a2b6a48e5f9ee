#pragma once

#include <optional>
#include <string>

#include "config/environment.h"
#include "config/report.h"

namespace braid::config {

/// A variable of the environment, and the name that HCCL has for it. `alias` may be null.
struct Variable {
  const char* name;
  const char* alias;
};

inline constexpr Variable kProfileVariable = {"BRAID_PROFILE", nullptr};
inline constexpr Variable kQpsVariable = {"BRAID_RDMA_QPS_PER_CONNECTION",
                                          "HCCL_RDMA_QPS_PER_CONNECTION"};
inline constexpr Variable kPortsVariable = {"BRAID_HOST_RDMA_UDP_PORTS_LIST",
                                            "HCCL_HOST_RDMA_UDP_PORTS_LIST"};
inline constexpr Variable kPairPathVariable = {"BRAID_RDMA_QP_PORT_CONFIG_PATH",
                                               "HCCL_RDMA_QP_PORT_CONFIG_PATH"};
inline constexpr Variable kThresholdVariable = {"BRAID_MULTI_QP_THRESHOLD",
                                                "HCCL_MULTI_QP_THRESHOLD"};
inline constexpr Variable kTrafficClassVariable = {"BRAID_RDMA_TC", "HCCL_RDMA_TC"};
inline constexpr Variable kServiceLevelVariable = {"BRAID_RDMA_SL", "HCCL_RDMA_SL"};
inline constexpr Variable kRetryVariable = {"BRAID_RDMA_RETRY_CNT", "HCCL_RDMA_RETRY_CNT"};
inline constexpr Variable kAckTimeoutVariable = {"BRAID_RDMA_TIMEOUT", "HCCL_RDMA_TIMEOUT"};
inline constexpr Variable kConnectTimeoutVariable = {"BRAID_CONNECT_TIMEOUT",
                                                     "HCCL_CONNECT_TIMEOUT"};
inline constexpr Variable kExecTimeoutVariable = {"BRAID_EXEC_TIMEOUT", "HCCL_EXEC_TIMEOUT"};
inline constexpr Variable kBasePortVariable = {"BRAID_IF_BASE_PORT", "HCCL_IF_BASE_PORT"};
inline constexpr Variable kPortRangeVariable = {"BRAID_HOST_SOCKET_PORT_RANGE",
                                                "HCCL_HOST_SOCKET_PORT_RANGE"};

/// A variable that is set, under the name that holds.
struct VariableValue {
  std::string value = {};
  std::string name = {};
  /// The alias's value, when both names are set.
  std::optional<std::string> alias_value = {};
};

/// Looks both names up; an empty value counts as not set. BRAID_ beats its alias; when both are set
/// and differ, the report gets a warning that says so.
[[nodiscard]] std::optional<VariableValue> find_variable(const Lookup& lookup,
                                                         const Variable& variable, Report& report);

}  // namespace braid::config
