#pragma once

#include <braid/status.h>

#include <cassert>
#include <utility>
#include <variant>

namespace braid {

/// Value of type T, or the Status that says why there is none.
///
/// The members have the names of std::expected, so that a later move to it is mechanical.
/// Errors: value() on an error, error() on a value and a Result made of an ok Status are
/// programmer errors (assert).
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Status;

  Result(T value) noexcept : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) noexcept : state_(std::in_place_index<1>, error) { assert(!error.ok()); }

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & noexcept { return *ptr(); }
  [[nodiscard]] const T& value() const& noexcept { return *ptr(); }
  [[nodiscard]] T&& value() && noexcept { return std::move(*ptr()); }
  [[nodiscard]] T& operator*() & noexcept { return *ptr(); }
  [[nodiscard]] const T& operator*() const& noexcept { return *ptr(); }
  [[nodiscard]] T&& operator*() && noexcept { return std::move(*ptr()); }
  [[nodiscard]] T* operator->() noexcept { return ptr(); }
  [[nodiscard]] const T* operator->() const noexcept { return ptr(); }

  /// Ok when there is a value.
  [[nodiscard]] Status error() const noexcept {
    const Status* error = std::get_if<1>(&state_);
    return error != nullptr ? *error : Status();
  }

 private:
  T* ptr() noexcept {
    assert(has_value());
    return std::get_if<0>(&state_);
  }
  const T* ptr() const noexcept {
    assert(has_value());
    return std::get_if<0>(&state_);
  }

  std::variant<T, Status> state_;
};

}  // namespace braid
