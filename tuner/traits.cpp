#include "tuner/traits.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace tunesmith {
namespace {

constexpr double per_variant = 2;  // steps

double octaves(std::int64_t value) { return std::log2(static_cast<double>(std::max<std::int64_t>(value, 1))); }

std::int64_t number(const Config& config, const char* field) {
  const Value* const value = config.fields.find(field);
  const auto* const integer = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return integer == nullptr ? 1 : std::max<std::int64_t>(*integer, 1);
}

bool is_word(const Config& config, const char* field, const char* word) {
  const Value* const value = config.fields.find(field);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text != nullptr && *text == word;
}

/// Such kernels bound their registers by min_blocks, or share rows among lanes; loops over a row have an `unroll`.
bool holds_row(const Config& config) {
  const Fields& fields = config.fields;
  return (fields.contains("lanes") || fields.contains("min_blocks")) && !fields.contains("unroll");
}

/// Lanes are the threads of a row, except where they lie along the other dimension.
std::int64_t threads_per_row(const Config& config) {
  if (is_word(config, "variant", "warp")) return number(config, "lanes");
  return number(config, "threads") / number(config, "lanes") * number(config, "blocks_per_row");
}

}  // namespace

Traits traits_of(const Config& config, std::int64_t n_cols) {
  Traits traits;
  for (const auto& [field, value] : config.fields) {
    if (const auto* const integer = std::get_if<std::int64_t>(&value))
      traits.octaves[field] = octaves(*integer + 1);
    else
      traits.words[field] = text(value);
  }
  if (!holds_row(config)) return traits;
  traits.octaves.erase(is_word(config, "variant", "warp") ? "lanes" : "threads");
  traits.octaves["row values"] =
      octaves(n_cols) - octaves(threads_per_row(config)) - (is_word(config, "registers", "packed") ? 1 : 0);
  if (config.fields.contains("min_blocks"))
    traits.octaves["min_blocks"] =
        octaves(n_cols) + octaves(number(config, "min_blocks")) - octaves(number(config, "blocks_per_row"));
  return traits;
}

double steps_between(const Traits& a, const Traits& b) {
  double steps = 0;
  for (const auto& [name, word] : a.words)
    if (const auto other = b.words.find(name); other == b.words.end() || other->second != word)
      steps += name == "variant" ? per_variant : 1;
  for (const auto& [name, value] : a.octaves) {
    const auto other = b.octaves.find(name);
    steps += other == b.octaves.end() ? 1 : std::fabs(value - other->second);
  }
  for (const auto& [name, word] : b.words) steps += a.words.contains(name) ? 0 : 1;
  for (const auto& [name, value] : b.octaves) steps += a.octaves.contains(name) ? 0 : 1;
  return steps;
}

}  // namespace tunesmith
