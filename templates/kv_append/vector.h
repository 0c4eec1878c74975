#pragma once
// How the kernel of kv_append divides rows among threads. Internal to templates/.

#include <cstdint>

#include "tunesmith/kv_append.h"

namespace tunesmith::kv_append {

/// Returns the elements of an access: at most 16 bytes of q, for which all rows, and both vectors of all units, are aligned.
std::int64_t vector_of(const KvAppendProblem& problem);
/// Returns the lanes of a row, as RowUnits in kv_append.cuh has them.
std::int64_t lanes_of(const KvAppendProblem& problem);
/// Returns the number of rows: heads of q, k and v of all tokens.
std::int64_t rows_of(const KvAppendProblem& problem);

}  // namespace tunesmith::kv_append
