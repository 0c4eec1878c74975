#include "tunesmith/types.h"

#include <array>
#include <charconv>
#include <utility>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

template <typename Enum, std::size_t Count>
using Names = std::array<std::pair<Enum, std::string_view>, Count>;

constexpr Names<Mode, 4> mode_names{
    {{Mode::tune, "tune"}, {Mode::later, "later"}, {Mode::replay, "replay"}, {Mode::off, "off"}}};
constexpr Names<Effort, 2> effort_names{{{Effort::quick, "quick"}, {Effort::full, "full"}}};
constexpr Names<Specialize, 3> specialize_names{
    {{Specialize::automatic, "auto"}, {Specialize::exact, "exact"}, {Specialize::capacity, "capacity"}}};
constexpr Names<Origin, 7> origin_names{{{Origin::pinned, "pinned"},
                                         {Origin::tuned, "tuned"},
                                         {Origin::exact, "exact"},
                                         {Origin::older, "older"},
                                         {Origin::nearest, "nearest"},
                                         {Origin::by_default, "default"},
                                         {Origin::capacity, "capacity"}}};

template <typename Enum, std::size_t Count>
std::string_view name_in(const Names<Enum, Count>& names, Enum value) noexcept {
  for (const auto& [candidate, text] : names)
    if (candidate == value) return text;
  return "unknown";
}

template <typename Enum, std::size_t Count>
Enum parse_in(const Names<Enum, Count>& names, std::string_view text, std::string_view argument) {
  std::string allowed;
  for (const auto& [value, candidate] : names) {
    if (candidate == text) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(candidate);
  }
  throw Error(ErrorCode::invalid_argument, argument, " is '", text, "'; allowed: ", allowed);
}

}  // namespace

std::string_view name(DType dtype) noexcept { return enum_name(dtype); }
DType parse_dtype(std::string_view text, std::string_view argument) {
  std::string allowed;
  for (std::size_t i = 0; i < enum_names<DType>.size(); ++i) {
    if (enum_names<DType>[i] == text) return static_cast<DType>(i);
    allowed += (i == 0 ? "" : ", ") + std::string(enum_names<DType>[i]);
  }
  throw Error(ErrorCode::invalid_argument, argument, " is '", text, "'; allowed: ", allowed);
}

std::string_view name(Mode mode) noexcept { return name_in(mode_names, mode); }
Mode parse_mode(std::string_view text) { return parse_in(mode_names, text, "mode"); }

std::string_view name(Effort effort) noexcept { return name_in(effort_names, effort); }
Effort parse_effort(std::string_view text) { return parse_in(effort_names, text, "effort"); }

std::string_view name(Specialize specialize) noexcept { return name_in(specialize_names, specialize); }
Specialize parse_specialize(std::string_view text) { return parse_in(specialize_names, text, "specialize"); }

std::string_view name(Origin origin) noexcept { return name_in(origin_names, origin); }

std::string name(const Arch& arch) {
  std::string text = "sm_" + std::to_string(arch.number());
  if (arch.suffix != 0) text += arch.suffix;
  return text;
}

Arch parse_arch(std::string_view text) {
  const auto fail = [&]() -> Error {
    return Error(ErrorCode::invalid_argument, "arch is '", text,
                 "'; expected sm_NN or sm_NNa, such as sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a");
  };
  if (!text.starts_with("sm_")) throw fail();
  const char* const begin = text.data() + 3;
  const char* const end = text.data() + text.size();
  int number = 0;
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || *begin == '-' || number < 10 || number > 999) throw fail();
  Arch arch{number / 10, number % 10, 0};
  if (rest != end) {
    if (end - rest != 1 || (*rest != 'a' && *rest != 'f')) throw fail();
    arch.suffix = *rest;
  }
  return arch;
}

Arch native_arch(int major, int minor) noexcept {
  const bool has_specific_target = (major == 9 && minor == 0) || major >= 10;
  return {major, minor, has_specific_target ? 'a' : '\0'};
}

}  // namespace tunesmith
