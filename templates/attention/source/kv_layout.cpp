#include "templates/attention/source/kv_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/half.h"
#include "templates/attention/reference/inputs.h"
#include "templates/attention/reference/reference.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

std::int64_t pages_of_length(const Settings& settings, std::int64_t length) {
  return (length + settings.page_size - 1) / settings.page_size;
}

/// Returns the length of a sequence that tests edge cases: 0, 1, the bound, the borders of pages, and any other.
std::int64_t edge_length(const Settings& settings, std::int64_t batch, std::uint64_t bits) {
  const std::int64_t any = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(settings.seq_kv + 1));
  const std::int64_t unit = settings.page_size > 0 ? settings.page_size : 16, border = any / unit * unit;
  switch (batch % 7) {
    case 1: return 0;
    case 2: return settings.seq_kv;
    case 3: return std::min<std::int64_t>(1, settings.seq_kv);
    case 4: return border;
    case 5: return std::min(border + 1, settings.seq_kv);
    default: return any;
  }
}

}  // namespace

LaunchPlan::TensorMap tensor_map(const Settings& settings, Side side, const Tensor& tensor, std::int64_t rows) {
  const Extents extent = settings.extents(side);
  LaunchPlan::TensorMap map;
  map.dtype = settings.dtype;
  map.rank = 4;
  map.sizes = {extent.width, extent.rows, extent.heads, extent.entries};
  // A dimension of one element may have any stride, but TMA needs multiples of 16 bytes.
  const auto bytes = [&](std::int64_t count, std::int64_t stride) {
    return count > 1 ? stride * size_of(settings.dtype) : std::int64_t{16};
  };
  map.strides_bytes = {bytes(extent.rows, tensor.seq_stride), bytes(extent.heads, tensor.head_stride),
                       bytes(extent.entries, tensor.batch_stride)};
  map.box = {64, rows, 1, 1};
  map.swizzle_bytes = 128;
  return map;
}

Sequences::Sequences(const Settings& settings, std::span<const HostArray> arrays)
    : settings_(settings),
      starts_q_(find(arrays, "cu_seqlens_q")),
      starts_kv_(find(arrays, "cu_seqlens_kv")),
      lengths_(find(arrays, "kv_lengths")),
      table_(find(arrays, "block_table")),
      scales_{find(arrays, "k_scale"), find(arrays, "v_scale")} {}

Sequences::Bounds Sequences::bounds(std::int64_t batch) const {
  Bounds bounds{0, settings_.seq_q, 0, settings_.seq_kv};
  const auto set = [&](const HostArray* starts, std::int64_t& start, std::int64_t& length) {
    if (starts == nullptr) return;
    start = read_integer(DType::i32, starts->data, batch);
    length = read_integer(DType::i32, starts->data, batch + 1) - start;
  };
  set(starts_q_, bounds.q_start, bounds.queries);
  set(starts_kv_, bounds.kv_start, bounds.keys);
  if (lengths_ != nullptr)
    bounds.keys = std::clamp<std::int64_t>(read_integer(DType::i32, lengths_->data, batch), 0, settings_.seq_kv);
  return bounds;
}

std::int64_t Sequences::page(std::int64_t batch, std::int64_t number) const {
  const std::int64_t page = read_integer(DType::i32, table_->data, batch * settings_.table_stride + number);
  if (page < 0 || page >= settings_.pages)
    throw Error(ErrorCode::invalid_argument, "block_table[", batch, ",", number, "] is ", page, "; expected 0 to ",
                settings_.pages - 1);
  return page;
}

std::int64_t Sequences::element(Side side, std::int64_t batch, std::int64_t position, std::int64_t head) const {
  return element(side, settings_.tensor(side), batch, position, head);
}

std::int64_t Sequences::element(Side side, const Tensor& tensor, std::int64_t batch, std::int64_t position,
                                std::int64_t head) const {
  if (!Settings::is_key(side) || settings_.page_size == 0) return Settings::element(tensor, batch, position, head);
  return Settings::element(tensor, page(batch, position / settings_.page_size), position % settings_.page_size, head);
}

double Sequences::scale(Side side, std::int64_t batch, std::int64_t position, std::int64_t head) const {
  const HostArray* const array = Settings::is_key(side) ? scales_[side == Side::v ? 1 : 0] : nullptr;
  if (array == nullptr) return 1;
  const Tensor& tensor = settings_.scale_tensor(side);
  return read_element(
      DType::f32, array->data,
      settings_.has_row_scales() ? element(side, tensor, batch, position, head) : Settings::element(tensor, batch, 0, head));
}

void fill_pages(const Settings& settings, std::uint64_t seed, bool edge_cases, std::span<const HostArray> arrays) {
  const HostArray *const lengths = find(arrays, "kv_lengths"), *const table = find(arrays, "block_table");
  if (lengths == nullptr) return;
  for (std::int64_t b = 0; b < settings.batch; ++b)
    write_integer(DType::i32, lengths->data, b,
                  settings.pages == 0 && settings.page_size > 0 ? 0
                  : edge_cases ? edge_length(settings, b, scramble(seed + static_cast<std::uint64_t>(b)))
                               : settings.seq_kv);
  if (table == nullptr) return;
  std::vector<std::int64_t> order(static_cast<std::size_t>(settings.pages));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[scramble(seed + 101 + i) % i]);
  std::size_t next = 0;
  const bool apart = settings.table_stride >= settings.max_pages;
  constexpr std::int64_t garbage[] = {-1, std::numeric_limits<std::int32_t>::max(),
                                      std::numeric_limits<std::int32_t>::min()};
  for (std::int64_t b = 0; b < settings.batch; ++b) {
    const std::int64_t used = pages_of_length(settings, read_integer(DType::i32, lengths->data, b));
    for (std::int64_t i = 0; i < settings.max_pages; ++i) {
      std::int64_t page = garbage[static_cast<std::size_t>(b + i) % std::size(garbage)];
      // Some sequences share their first page with the previous sequence.
      if (edge_cases && b % 3 == 2 && i == 0 && used > 0 && read_integer(DType::i32, lengths->data, b - 1) > 0)
        page = read_integer(DType::i32, table->data, (b - 1) * settings.table_stride);
      else if (i < used || ((!edge_cases || !apart) && !order.empty()))
        page = order[next++ % order.size()];
      write_integer(DType::i32, table->data, b * settings.table_stride + i, page);
    }
  }
}

void fill_scales(const Settings& settings, std::uint64_t seed, bool edge_cases, std::span<const HostArray> arrays) {
  for (const Side side : {Side::k, Side::v}) {
    const HostArray* const array = find(arrays, side == Side::k ? "k_scale" : "v_scale");
    if (array == nullptr) continue;
    const std::uint64_t stream = scramble(seed + static_cast<std::uint64_t>(side));
    std::uint64_t number = 0;
    const auto write = [&](std::int64_t at) {
      const std::uint64_t bits = scramble(stream + number++);
      double value = 0.5 + uniform(bits);
      // K's scales change scores, which must not all be beyond the range of exponentials.
      if (edge_cases && bits % 5 == 1) value *= side == Side::k ? 0x1p-6 : 0x1p-12;
      if (edge_cases && bits % 5 == 3) value *= side == Side::k ? 2 : 0x1p9;
      if (edge_cases && bits % 29 == 4 && settings.has_row_scales()) value = 0;
      write_element(DType::f32, array->data, at, static_cast<float>(value));
    };
    if (settings.has_row_scales())
      over_positions(settings, side, settings.scale_tensor(side),
                     [&](std::int64_t, std::int64_t, std::int64_t, std::int64_t at) { write(at); });
    else
      for (std::int64_t at = 0; at < array->info.elements(); ++at) write(at);
  }
}

void fill_unused_positions(const Settings& settings, Side side, std::span<const HostArray> arrays) {
  if (!settings.kv_lengths) return;
  const Sequences sequences(settings, arrays);
  const HostArray& array = arrays[static_cast<std::size_t>(side)];
  const Extents extent = settings.extents(side);
  std::vector<bool> used(static_cast<std::size_t>(extent.entries * extent.rows));
  for (std::int64_t b = 0; b < settings.batch; ++b)
    for (std::int64_t j = 0; j < sequences.bounds(b).keys; ++j) {
      const bool paged = settings.page_size > 0;
      const std::int64_t entry = paged ? sequences.page(b, j / settings.page_size) : b;
      used[static_cast<std::size_t>(entry * extent.rows + (paged ? j % settings.page_size : j))] = true;
    }
  const auto is_used = [&](std::int64_t entry, std::int64_t position) -> bool {
    return used[static_cast<std::size_t>(entry * extent.rows + position)];
  };
  const auto fill = [&](const HostArray& of, const Tensor& tensor, std::int64_t width) {
    // Strides may map used and unused positions to the same elements.
    std::vector<bool> kept(static_cast<std::size_t>(of.info.extent_bytes() / size_of(of.info.dtype)));
    over_positions(settings, side, tensor, [&](std::int64_t entry, std::int64_t position, std::int64_t, std::int64_t at) {
      if (is_used(entry, position)) std::fill_n(kept.begin() + at, width, true);
    });
    over_positions(settings, side, tensor, [&](std::int64_t entry, std::int64_t position, std::int64_t, std::int64_t at) {
      for (std::int64_t e = at; e < at + width && !is_used(entry, position); ++e)
        if (!kept[static_cast<std::size_t>(e)]) write_element(of.info.dtype, of.data, e, NAN);
    });
  };
  fill(array, settings.tensor(side), extent.width);
  if (settings.has_row_scales())
    fill(*find(arrays, side == Side::k ? "k_scale" : "v_scale"), settings.scale_tensor(side), 1);
}

}  // namespace tunesmith::attention
