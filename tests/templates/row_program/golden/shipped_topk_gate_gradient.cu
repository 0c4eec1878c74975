/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* dweight_address;
  int64 dweight_stride;
  void* dx_address;
  int64 dx_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  static constexpr int columns_chosen = 8;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, ListReductions<TopColumns<columns_chosen, 0>>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dweight[columns_chosen];
    int i[columns_chosen];
    float d_v[columns_chosen];
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
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dx_address, params.dx_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.dweight[rank] = load_value<float>(params.dweight_address, row * params.dweight_stride + rank);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    int i[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      i[rank] = TopColumns<columns_chosen, 0>::column(partial.value, rank);
    float v_[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v_[rank] = TopColumns<columns_chosen, 0>::value(partial.value, rank);
    Reductions<LogSumExp<false>>::Value chosen_l = Reductions<LogSumExp<false>>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{v_[rank]}};
      Reductions<LogSumExp<false>>::include(chosen_l, terms, {0, 1, rank});
    }
    const float l = LogSumExp<false>::result(chosen_l.value);
    float t1[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      t1[rank] = exponential_of_rounded((v_[rank] - l));
    float t2[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      t2[rank] = values.dweight[rank] * t1[rank];
    Reductions<PlainSumOfColumns>::Value chosen_d_l = Reductions<PlainSumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{-t2[rank]}};
      Reductions<PlainSumOfColumns>::include(chosen_d_l, terms, {0, 1, rank});
    }
    const float d_l = PlainSumOfColumns::result(chosen_d_l.value);
    float d_v[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      d_v[rank] = t2[rank] + (d_l * t1[rank]);
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.i[rank] = i[rank];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.d_v[rank] = d_v[rank];
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    float v12 = 0.0f;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v12 = values.i[rank] == static_cast<int>(v.column) + j ? v12 + values.d_v[rank] : v12;
    results[0][j] = v12;  // dx
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
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
    .register_vectors = 2,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::plain,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::BlockGroup<256>;
using Storage = tunesmith::InRegisters<tunesmith::FloatVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .dweight_address = {}, .dweight_stride = {}, .dx_address = {}, .dx_stride = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dweight_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dweight_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
