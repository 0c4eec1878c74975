/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  void* r_address;
  void* place_address;
  void* y_address;
  int64 y_stride;
};

// largest
struct Monoid0 {
  static constexpr int components = 1;
  static __device__ __forceinline__ void identity(float* partial) {
    partial[0] = float_of(0xff800000u);
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    const float v2 = maximum_or_nan(partial[0], other[0]);
    const float result0 = v2;
    partial[0] = result0;
  }
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  static constexpr int columns_chosen = 4;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, ListReductions<TopColumns<columns_chosen, 0>>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    int b;
    float v14;
    float v16[columns_chosen];
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 0, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    float v_[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v_[rank] = TopColumns<columns_chosen, 0>::value(partial.value, rank);
    Reductions<ArgminOfColumns>::Value chosen_b = Reductions<ArgminOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{v_[rank]}};
      Reductions<ArgminOfColumns>::include(chosen_b, terms, {0, 1, rank});
    }
    const int b = ArgminOfColumns::result(chosen_b.value);
    Reductions<AnyColumn>::Value chosen_some = Reductions<AnyColumn>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{(3.0f < v_[rank]) ? 1.0f : 0.0f}};
      Reductions<AnyColumn>::include(chosen_some, terms, {0, 1, rank});
    }
    const bool some = AnyColumn::result(chosen_some.value);
    Reductions<MaximumOfColumns>::Value chosen_a = Reductions<MaximumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{v_[rank]}};
      Reductions<MaximumOfColumns>::include(chosen_a, terms, {0, 1, rank});
    }
    const float a = MaximumOfColumns::result(chosen_a.value);
    Reductions<CustomReduction<Monoid0>>::Value chosen_e = Reductions<CustomReduction<Monoid0>>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{absolute(v_[rank])}};
      Reductions<CustomReduction<Monoid0>>::include(chosen_e, terms, {0, 1, rank});
    }
    const float e = chosen_e.value[0];
    Reductions<AllColumns>::Value chosen_each = Reductions<AllColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{((-3.0f) < v_[rank]) ? 1.0f : 0.0f}};
      Reductions<AllColumns>::include(chosen_each, terms, {0, 1, rank});
    }
    const bool each = AllColumns::result(chosen_each.value);
    values.b = b;
    values.v14 = some ? (a + e) : (each ? a : e);
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.v16[rank] = rounded<bf16>((v_[rank] - a));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {}
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_value<float>(params.r_address, row, values.v14);
    store_integer(params.place_address, row, values.b);
    store_chosen<bf16>(params.y_address, row * params.y_stride, values.v16);
  }
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
};

}  // namespace tunesmith

static constexpr tunesmith::RowShape shape = {
    .cols = 4096,
    .vector = 8,
};

template <>
struct tunesmith::RowFeatures<shape> {
  using Edges = tunesmith::WholeVectors;
  using SeenEdges = tunesmith::WholeVectors;
  using Mask = tunesmith::NoMask;
  using Prefetch = tunesmith::NoPrefetch;
};

static constexpr tunesmith::ResidentConfig config = {
    .register_vectors = 1,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::no_allocate,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::ClusterGroup<256, 2>;
using Storage = tunesmith::InRegisters<tunesmith::PackedVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .r_address = {}, .place_address = {}, .y_address = {}, .y_stride = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::r_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::place_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
