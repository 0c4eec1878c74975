#include "templates/attention/reference/dropout.h"

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "templates/attention/params.cuh"
#include "templates/attention/reference/reference.h"

namespace tunesmith::attention {

std::array<std::uint32_t, 4> philox(std::uint64_t key, const std::array<std::uint32_t, 4>& counter) noexcept {
  std::array<std::uint32_t, 4> x = counter;
  std::array<std::uint32_t, 2> round_key{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * x[0], b = std::uint64_t{0xcd9e8d57} * x[2];
    x = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ round_key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ round_key[1], static_cast<std::uint32_t>(a)};
    round_key = {round_key[0] + 0x9e3779b9U, round_key[1] + 0xbb67ae85U};
  }
  return x;
}

std::uint32_t dropout_threshold(double probability) noexcept {
  return static_cast<std::uint32_t>(std::min(std::round(probability * 0x1p16), 0x1p16 - 1));
}

double dropout_factor(double probability) noexcept { return 0x1p16 / (0x1p16 - dropout_threshold(probability)); }

DropoutMask::DropoutMask(const Settings& settings, std::span<const HostArray> arrays)
    : threshold_(dropout_threshold(settings.dropout)), kept_(dropout_factor(settings.dropout)) {
  std::int64_t seed = settings.dropout_seed, offset = settings.dropout_offset;
  if (const HostArray* const state = find(arrays, "rng_state"); state != nullptr && state->data != nullptr) {
    seed = read_integer(DType::i64, state->data, 0);
    offset = read_integer(DType::i64, state->data, 1);
  }
  key_ = static_cast<std::uint64_t>(seed) + static_cast<std::uint64_t>(offset) * dropout_stream;
}

double DropoutMask::factor(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const noexcept {
  const auto word = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  const std::array<std::uint32_t, 4> numbers =
      philox(key_, {word(query / 16 * 8 + query % 8), word(key / 16 * 4 + key % 8 / 2), word(head), word(batch)});
  const std::uint32_t both = numbers[static_cast<std::size_t>(query / 8 % 2 * 2 + key / 8 % 2)];
  return (key % 2 == 1 ? both >> 16 : both & 0xffff) < threshold_ ? 0 : kept_;
}

}  // namespace tunesmith::attention
