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
  using RowReductions = typename TypeAt<stage - 1, ListReductions<LogSumExp<false>, TopColumns<columns_chosen, 0>>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dweight[columns_chosen];
    float l;
    int i[columns_chosen];
    float d_v[columns_chosen];
    float d_l;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 1, .columns = 0, .groups = 0};
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
    const float x = v.input[0][j];
    terms[0][j] = x;
    terms[1][j] = x;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float l = LogSumExp<false>::result(partial.value);
    int i[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      i[rank] = TopColumns<columns_chosen, 0>::column(partial.value + 3, rank);
    float v_[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v_[rank] = TopColumns<columns_chosen, 0>::value(partial.value + 3, rank);
    float d_v[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      d_v[rank] = values.dweight[rank] * exponential_of_rounded((v_[rank] - l));
    Reductions<SumOfColumns>::Value chosen_d_l = Reductions<SumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{-d_v[rank]}};
      Reductions<SumOfColumns>::include(chosen_d_l, terms, {0, 1, rank});
    }
    const float d_l = SumOfColumns::result(chosen_d_l.value);
    values.l = l;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.i[rank] = i[rank];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.d_v[rank] = d_v[rank];
    values.d_l = d_l;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    float v10 = 0.0f;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v10 = values.i[rank] == static_cast<int>(v.column) + j ? v10 + values.d_v[rank] : v10;
    results[0][j] = v10 + (values.d_l * exponential_of_rounded((v.input[0][j] - values.l)));  // dx
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
};

static constexpr tunesmith::TiledConfig config = {
    .threads = 256,
    .unroll = 2,
    .blocks_per_row = 1,
    .load = tunesmith::LoadHint::plain,
    .load_again = tunesmith::LoadHint::plain,
    .store = tunesmith::StoreHint::plain,
};

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .dweight_address = {}, .dweight_stride = {}, .dx_address = {}, .dx_stride = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dweight_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dweight_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
