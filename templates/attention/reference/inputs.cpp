// Inputs that test attention: random numbers, and edge cases among them.

#include "templates/attention/reference/inputs.h"

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "templates/attention/op.h"
#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/kv_layout.h"
#include "templates/sampling.h"

namespace tunesmith {

using namespace attention;

namespace {

/// Fills cu_seqlens with lengths up to `longest` that add up to `total`; edge cases are empty and longest sequences.
void fill_starts(const HostArray& array, std::int64_t total, std::int64_t longest, std::uint64_t seed, bool edge_cases) {
  const std::int64_t batch = array.info.shape[0] - 1;
  std::int64_t start = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    write_integer(DType::i32, array.data, b, start);
    const std::int64_t left = total - start, after = batch - b - 1;
    const std::int64_t least = std::max<std::int64_t>(0, left - after * longest), most = std::min(left, longest);
    const double share = uniform(scramble(seed + static_cast<std::uint64_t>(b)));
    std::int64_t length =
        std::min(most, static_cast<std::int64_t>(2 * share * static_cast<double>(left) / static_cast<double>(after + 1)));
    if (edge_cases && b % 5 == 1) length = 0;
    if (edge_cases && b % 5 == 3) length = most;
    start += std::clamp(length, least, most);
  }
  write_integer(DType::i32, array.data, batch, total);
}

/// Fills an auxiliary array with values that user functions may expect: bytes are flags; other integers never decrease and
/// are below `bound`, so that they can be document ids, lengths and indices into the shortest array; floats are around 0.
void fill_aux(const HostArray& array, std::uint64_t seed, std::int64_t bound) {
  const std::int64_t length = array.info.shape[0];
  for (std::int64_t i = 0; i < length; ++i) {
    const std::uint64_t bits = scramble(seed + static_cast<std::uint64_t>(i));
    if (is_float(array.info.dtype))
      write_element(array.info.dtype, array.data, i, static_cast<float>(bell(bits)));
    else
      write_integer(array.info.dtype, array.data, i,
                    array.info.dtype == DType::u8 ? static_cast<std::int64_t>(bits % 4 != 0) : i * bound / length);
  }
}

/// Returns an edge case at some positions. v stays finite: NaN of a tile reaches queries for which its key is masked.
double edge_case_value(Side side, std::int64_t position, std::int64_t head, std::int64_t column, double normal) {
  if (side == Side::q) {
    if (position % 37 == 5) return 0;                                 // equal scores
    if (position % 37 == 11) return normal * 30;                      // one key takes all weight
    if (position % 61 == 23) return column == 0 ? NAN : normal;       // NaN by definition
    if (position % 61 == 29) return column == 1 ? INFINITY : normal;  // likewise, or where it meets a zero
    if (head % 2 == 1 && position % 37 == 17) return normal * 1e-4;
  }
  if (side == Side::k) {
    if (position % 53 == 7) return 0;
    if (position % 53 == 31) return normal * 20;
  }
  if (side == Side::v) {
    if (position % 41 == 3) return normal * 1e3;
    if (column % 8 == 6) return normal + 100;  // an offset that the weights must add up to
  }
  return normal;
}

}  // namespace

void ParsedAttention::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  attention::fill_inputs(settings_, seed, kind == InputKind::edge_cases, arrays);
}

void attention::fill_inputs(const Settings& settings, std::uint64_t seed, bool edge_cases,
                            std::span<const HostArray> arrays) {
  for (const Side side : {Side::q, Side::k, Side::v}) {
    const HostArray& array = arrays[static_cast<std::size_t>(side)];
    const std::uint64_t stream = scramble(seed + static_cast<std::uint64_t>(side));
    const std::int64_t width = settings.width(side);
    std::uint64_t number = 0;
    over_positions(settings, side, settings.tensor(side),
                   [&](std::int64_t, std::int64_t position, std::int64_t head, std::int64_t at) {
                     for (std::int64_t c = 0; c < width; ++c) {
                       const double normal = bell(scramble(stream + number++));
                       const double value = edge_cases ? edge_case_value(side, position, head, c, normal) : normal;
                       write_element(array.info.dtype, array.data, at + c, static_cast<float>(value));
                     }
                   });
  }
  fill_pages(settings, seed + 14, edge_cases, arrays);
  fill_scales(settings, seed + 15, edge_cases, arrays);
  if (edge_cases)
    for (const Side side : {Side::k, Side::v}) fill_unused_positions(settings, side, arrays);
  std::int64_t shortest = 8;
  for (const Aux& aux : settings.aux)
    if (aux.is_array) shortest = std::max<std::int64_t>(1, std::min(shortest, aux.length(settings.dimensions())));
  for (const HostArray& array : arrays) {
    if (array.info.name == "alibi_slopes")
      for (std::int64_t h = 0; h < settings.heads; ++h)
        write_element(
            DType::f32, array.data, h,
            static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(settings.heads))));
    if (array.info.name == "sinks")
      for (std::int64_t h = 0; h < settings.heads; ++h)
        write_element(DType::f32, array.data, h, edge_cases && h % 3 == 2 ? 40.0f : static_cast<float>(h % 4 - 1));
    for (const Aux& aux : settings.aux)
      if (aux.is_array && aux.name == array.info.name) fill_aux(array, seed + scramble(7), shortest);
    if (array.info.name == "block_mask" && array.info.input) fill_block_mask(array);
    if (array.info.name == "rng_state")
      for (std::int64_t i = 0; i < 2; ++i)
        write_integer(DType::i64, array.data, i,
                      static_cast<std::int64_t>(scramble(seed + 13 + static_cast<std::uint64_t>(i))));
    if (array.info.name == "cu_seqlens_q") fill_starts(array, settings.total_q, settings.seq_q, seed + 11, edge_cases);
    if (array.info.name == "cu_seqlens_kv") fill_starts(array, settings.total_kv, settings.seq_kv, seed + 12, edge_cases);
  }
}

}  // namespace tunesmith
