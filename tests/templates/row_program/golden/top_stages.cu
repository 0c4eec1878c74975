/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  void* y_address;
  int64 y_stride;
  void* z_address;
  int64 z_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<e4m3>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 3;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  static constexpr int columns_chosen = 4;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<SumOfColumns>, ListReductions<TopColumns<columns_chosen, 1>>, Reductions<SumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float m;
    int i[columns_chosen];
    float a[columns_chosen];
    float low;
    float below;
    float v12[columns_chosen];
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    if constexpr (pass == 3) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 1, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.z_address, params.z_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float m = divide(SumOfColumns::result(partial.value), static_cast<float>(params.row.cols));
    values.m = m;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    terms[0][j] = absolute((x - values.m));
    terms[1][j] = x;
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    int i[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      i[rank] = TopColumns<columns_chosen, 1>::column(partial.value, rank);
    float a[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      a[rank] = TopColumns<columns_chosen, 1>::template more<0>(partial.value, rank);
    float v_[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v_[rank] = TopColumns<columns_chosen, 1>::value(partial.value, rank);
    Reductions<MinimumOfColumns>::Value chosen_low = Reductions<MinimumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{v_[rank]}};
      Reductions<MinimumOfColumns>::include(chosen_low, terms, {0, 1, rank});
    }
    const float low = MinimumOfColumns::result(chosen_low.value);
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.i[rank] = i[rank];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.a[rank] = a[rank];
    values.low = low;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<3>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    terms[0][j] = (absolute((x - values.m)) < values.low) ? x : 0.0f;
  }
  static __device__ __forceinline__ void derive(OfStage<3>, const Params& params, int64 row, const RowReductions<3>::Value& partial,
      Values& values) {
    const float below = SumOfColumns::result(partial.value);
    values.below = below;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.v12[rank] = values.a[rank] + below;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    float v13 = 0.0f;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v13 = values.i[rank] == static_cast<int>(v.column) + j ? v13 + values.below : v13;
    results[0][j] = v.input[0][j] + v13;  // z
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_chosen<float>(params.y_address, row * params.y_stride, values.v12);
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
  using Edges = tunesmith::ByteEdges<tunesmith::WholeVectors>;
  using SeenEdges = tunesmith::ByteEdges<tunesmith::WholeVectors>;
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .y_address = {}, .y_stride = {}, .z_address = {}, .z_stride = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
