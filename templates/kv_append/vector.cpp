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
  for (const auto& elements : {p.k_stride, p.v_stride, p.q_stride, p.q_out_stride, p.k_page_stride, p.v_page_stride,
                               p.k_head_stride, p.v_head_stride})
    if (elements) divides(*elements);
  if (p.page_size > 1)
    for (const auto& elements : {p.k_slot_stride, p.v_slot_stride})
      if (elements) divides(*elements);
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
