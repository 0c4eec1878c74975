#include "api/cli/input/check_starts.h"

#include <string>

#include "templates/half.h"
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

}  // namespace

void check_starts(const Problem& problem, const std::vector<HostArray>& arrays) {
  for (const HostArray& array : arrays) {
    const Fields& fields = problem.fields;
    if (array.info.name == "cu_seqlens_q")
      check(array, "seq_q", fields.integer("seq_q"), "total_q", fields.integer("total_q"));
    if (array.info.name == "cu_seqlens_kv")
      check(array, "seq_kv", fields.integer("seq_kv"), "total_kv", fields.integer("total_kv"));
  }
}

}  // namespace tunesmith::cli
