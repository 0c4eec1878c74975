#pragma once
// Checks cu_seqlens, kv_lengths and block_table from files before a kernel trusts them.

#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// Throws Error(invalid_argument) that names the first invalid entry of cu_seqlens_q or cu_seqlens_kv. Entries begin with 0
/// and do not decrease, no sequence is longer than seq_q or seq_kv, and the last entry is at most total_q or total_kv.
/// Likewise for kv_lengths, from 0 to seq_kv, and for the entries of block_table that they reach, which are pages.
void check_starts(const Problem& problem, const std::vector<HostArray>& arrays);

}  // namespace tunesmith::cli
