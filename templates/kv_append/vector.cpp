#include "templates/kv_append/vector.h"

#include <algorithm>
#include <initializer_list>

namespace tunesmith::kv_append {

std::int64_t vector_of(const KvAppendProblem& p) {
  std::int64_t vector = 16 / size_of(p.dtype);
  const auto divides = [&](std::int64_t elements) {
    while (elements % vector != 0) vector /= 2;
  };
  const std::int64_t width_v = p.head_dim_v.value_or(p.head_dim);
  divides(p.head_dim / 2);
  divides(width_v / 2);
  if (p.rope != Rope::none) divides(p.rotary_dim.value_or(p.head_dim) / 2);
  const auto stride = [&](std::int64_t count, const std::optional<std::int64_t>& elements) {
    if (count > 1 && elements) divides(*elements);
  };
  for (const auto& elements : {p.k_stride, p.v_stride}) stride(p.tokens, elements);
  if (p.heads > 0)
    for (const auto& elements : {p.q_stride, p.q_out_stride}) stride(p.tokens, elements);
  for (const auto& elements : {p.k_page_stride, p.v_page_stride}) stride(p.pages, elements);
  for (const auto& elements : {p.k_slot_stride, p.v_slot_stride}) stride(p.page_size, elements);
  for (const auto& elements : {p.k_head_stride, p.v_head_stride}) stride(p.kv_heads, elements);
  return vector;
}

std::int64_t lanes_of(const KvAppendProblem& p) {
  const std::int64_t widest = std::max(p.head_dim, p.head_dim_v.value_or(p.head_dim)), unit = 2 * vector_of(p);
  std::int64_t lanes = 1;
  while (lanes < 32 && lanes * unit < widest) lanes *= 2;
  return lanes;
}

std::int64_t rows_of(const KvAppendProblem& p) { return p.tokens * (p.heads + 2 * p.kv_heads); }

}  // namespace tunesmith::kv_append
