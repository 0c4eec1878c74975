#include "api/cli/input/check_starts.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/half.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

void check(const HostArray& starts, const char* longest, std::int64_t length, const char* all, std::int64_t total) {
  const auto fail = [&](std::int64_t entry, std::int64_t value, const auto&... expected) {
    throw Error(ErrorCode::invalid_argument, starts.info.name, "[", entry, "] is ", value, "; expected ", expected...);
  };
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < starts.info.shape[0]; ++i) {
    const std::int64_t start = read_integer(starts.info.dtype, starts.data, i);
    if (i == 0 && start != 0) fail(i, start, "0");
    if (start < before) fail(i, start, "at least the entry before it, ", before);
    if (start - before > length)
      fail(i, start, "at most ", before + length, ": a sequence has no more than ", longest, " = ", length, " positions");
    if (start > total) fail(i, start, "at most ", all, ", ", total);
    before = start;
  }
}

/// Lengths of keys, and the pages that they reach.
void check_lengths(const Fields& fields, const HostArray& lengths, const HostArray* table) {
  const std::int64_t most = fields.integer("seq_kv");
  for (std::int64_t b = 0; b < lengths.info.shape[0]; ++b) {
    const std::int64_t length = read_integer(lengths.info.dtype, lengths.data, b);
    if (length < 0 || length > most)
      throw Error(ErrorCode::invalid_argument, "kv_lengths[", b, "] is ", length, "; expected 0 to ", most);
    if (table == nullptr) continue;
    const std::int64_t page_size = fields.integer("page_size"), pages = fields.integer("pages");
    for (std::int64_t i = 0; i * page_size < length; ++i)
      if (const std::int64_t page = read_integer(table->info.dtype, table->data, b * table->info.strides[0] + i);
          page < 0 || page >= pages)
        throw Error(ErrorCode::invalid_argument, "block_table[", b, ",", i, "] is ", page, "; expected 0 to ", pages - 1);
  }
}

/// Slots of a cache, which are different, and positions, which are rows of a table.
void check_slots(const HostArray& slots, std::int64_t count) {
  std::map<std::int64_t, std::int64_t> tokens;
  for (std::int64_t t = 0; t < slots.info.shape[0]; ++t) {
    const std::int64_t slot = read_integer(slots.info.dtype, slots.data, t);
    if (slot < 0) continue;
    if (slot >= count)
      throw Error(ErrorCode::invalid_argument, "slot_mapping[", t, "] is ", slot, "; expected less than pages * page_size, ",
                  count);
    if (const auto [first, is_new] = tokens.emplace(slot, t); !is_new)
      throw Error(ErrorCode::invalid_argument, "slot_mapping[", t, "] is ", slot, ", as is slot_mapping[", first->second,
                  "]; expected different slots");
  }
}
void check_positions(const HostArray& positions, std::int64_t count) {
  for (std::int64_t t = 0; t < positions.info.shape[0]; ++t)
    if (const std::int64_t position = read_integer(positions.info.dtype, positions.data, t);
        position < 0 || position >= count)
      throw Error(ErrorCode::invalid_argument, "positions[", t, "] is ", position, "; expected 0 to ", count - 1);
}

}  // namespace

void check_starts(const Problem& problem, const std::vector<HostArray>& arrays) {
  for (const HostArray& array : arrays) {
    const Fields& fields = problem.fields;
    if (array.info.name == "cu_seqlens_q")
      check(array, "seq_q", fields.integer("seq_q"), "total_q", fields.integer("total_q"));
    if (array.info.name == "cu_seqlens_kv")
      check(array, "seq_kv", fields.integer("seq_kv"), "total_kv", fields.integer("total_kv"));
    if (array.info.name == "kv_lengths") {
      const auto table = std::ranges::find_if(arrays, [](const HostArray& one) { return one.info.name == "block_table"; });
      check_lengths(fields, array, table == arrays.end() ? nullptr : &*table);
    }
    if (array.info.name == "slot_mapping") check_slots(array, fields.integer("pages") * fields.integer("page_size"));
    if (array.info.name == "positions") check_positions(array, fields.integer("max_positions"));
  }
}

}  // namespace tunesmith::cli
