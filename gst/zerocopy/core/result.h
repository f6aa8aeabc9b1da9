// SPDX-License-Identifier: LGPL-2.1-or-later
// Value or error, without exceptions.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace gstzc {

// What went wrong, in words for the user: what was tried with which value, the errno if a system call said it (else 0),
// and what to do about it.
struct Error {
  std::string what;
  int code = 0; // errno, positive
  std::string remedy;

  // "open /dev/udmabuf: No such file or directory (2). Load the module udmabuf."
  std::string message() const {
    std::string text = what;
    if (code != 0) text += std::string(": ") + std::strerror(code) + " (" + std::to_string(code) + ")";
    if (!remedy.empty()) text += ". " + remedy;
    return text;
  }
};

// Either a T or an Error. `value()` and `*` need ok(); `error()` needs !ok().
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T &value() { return *std::get_if<0>(&state_); }
  const T &value() const { return *std::get_if<0>(&state_); }
  T &operator*() { return value(); }
  const T &operator*() const { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  const Error &error() const { return *std::get_if<1>(&state_); }
  T take() { return std::move(value()); }

private:
  std::variant<T, Error> state_;
};

struct Nothing {};
using Status = Result<Nothing>;

} // namespace gstzc
