// The inputs of a row program's row while it is on the chip.
#pragma once

#include "row/program.cuh"
#include "row/schedules/hybrid_row.cuh"

namespace tunesmith {

/// The inputs of a row, resident in registers and shared memory. `index`: of the first one. `all_bytes`: of the vectors of
/// all inputs.
template <int index, int all_bytes, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          typename... Elements>
struct ResidentInputs {
  __device__ __forceinline__ explicit ResidentInputs(unsigned char*) {}
  template <typename Program>
  __device__ __forceinline__ void load(const typename Program::Params&, const Row<shape>&, int) {}
  template <typename Program, typename Later>
  __device__ __forceinline__ void prefetch(const typename Program::Params&, const Later&) const {}
  __device__ __forceinline__ void arrived() {}
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int, Vector&) {}
  template <int which>
  __device__ __forceinline__ int maximum() const {
    return 0;
  }
  static __device__ __forceinline__ constexpr bool can_keep(int, int) { return true; }
  template <typename Vector>
  __device__ __forceinline__ void keep(int, int, const Vector&) {}
};
template <int index, int all_bytes, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          typename First, typename... Rest>
struct ResidentInputs<index, all_bytes, shape, config, Group, Storage, First, Rest...> {
  using Resident =
      typename Storage::template Row<First, shape, config, Group, all_bytes - Packed<First, shape.vector>::bytes>;
  Resident first;
  ResidentInputs<index + 1, all_bytes, shape, config, Group, Storage, Rest...> rest;

  /// `memory`: dynamic shared memory for all inputs, or nullptr.
  __device__ __forceinline__ explicit ResidentInputs(unsigned char* memory)
      : first(memory), rest(memory + Resident::bytes_to_next) {}
  template <typename Program>
  __device__ __forceinline__ void load(const typename Program::Params& params, const Row<shape>& row, int thread_rank) {
    first.load(Program::template input<index>(params).template at<First>(row), row, thread_rank, 0.0f);
    rest.template load<Program>(params, row, thread_rank);
  }
  template <typename Program, typename Later>
  __device__ __forceinline__ void prefetch(const typename Program::Params& params, const Later& later) const {
    const RowsOfArray rows = Program::template input<index>(params);
    later.template start<First, config.load>(params.row, rows.first, rows.stride);
    rest.template prefetch<Program>(params, later);
  }
  __device__ __forceinline__ void arrived() { first.arrived(); }  // all copies of a thread are awaited together
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int i, Vector& v) {
    if constexpr ((used >> index & 1u) != 0) get_numbers<First>(first, i, v.input[index]);
    rest.template get<used>(i, v);
  }
  /// Returns the maximum of no elements of an input, which includes its packed vectors; an integer if there is no such
  /// input.
  template <int which>
  __device__ __forceinline__ auto maximum() const {
    if constexpr (which == index)
      return PackedMaximum<First>();
    else
      return rest.template maximum<which>();
  }
  /// Returns vector i of an input in the layout of global memory.
  template <int which>
  __device__ __forceinline__ auto packed_at(int i) const {
    if constexpr (which == index)
      return first.packed_at(i);
    else
      return rest.template packed_at<which>(i);
  }
  /// Returns whether vector i of the first `count` inputs holds any number without rounding.
  static __device__ __forceinline__ constexpr bool can_keep(int i, int count) {
    return index >= count ||
           (Resident::exact(i) && is_same<Compute<First>, Number<shape>> && decltype(rest)::can_keep(i, count));
  }
  /// Replaces vector i of the first `count` inputs.
  template <typename Vector>
  __device__ __forceinline__ void keep(int i, int count, const Vector& v) {
    if (index >= count) return;
    if constexpr (is_same<Compute<First>, Number<shape>>) first.put(i, v.input[index]);
    rest.keep(i, count, v);
  }
};
template <typename Inputs, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
struct ResidentInputsOf;
template <typename... Elements, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
struct ResidentInputsOf<TypeList<Elements...>, shape, config, Group, Storage> {
  using type =
      ResidentInputs<0, (Packed<Elements, shape.vector>::bytes + ... + 0), shape, config, Group, Storage, Elements...>;
};

}  // namespace tunesmith
