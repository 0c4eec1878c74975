/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* w_address;
  const void* bonus_address;
  int64 bonus_stride;
  void* value_address;
  int64 value_stride;
  void* column_address;
  int64 column_stride;
  void* spread_address;
  void* one_address;
  int64 one_stride;
  float least_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<>;
  using ColumnArrays = ColumnList<Columns<float, 4>>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  static constexpr int columns_chosen = 6;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, ListReductions<TopColumns<columns_chosen, 2>>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float bonus[columns_chosen];
    float m;
    float v24[columns_chosen];
    int v28[columns_chosen];
    float v29;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 1, .groups = 0};
    return {.inputs = 0, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }
  template <int which>
  static __device__ __forceinline__ const void* column_array(const Params& params) {
    if constexpr (which == 0) return params.w_address;
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.bonus[rank] = load_value<float>(params.bonus_address, row * params.bonus_stride + rank);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    const float w = v.of_column[0][j];
    const float h = rounded<bf16>((x * w));
    terms[0][j] = h;
    terms[1][j] = x;
    terms[2][j] = w + x;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    float v_[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v_[rank] = TopColumns<columns_chosen, 2>::value(partial.value, rank);
    Reductions<SumOfColumns>::Value chosen_m = Reductions<SumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{v_[rank] * values.bonus[rank]}};
      Reductions<SumOfColumns>::include(chosen_m, terms, {0, 1, rank});
    }
    const float m = divide(SumOfColumns::result(chosen_m.value), static_cast<float>(columns_chosen));
    float a[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      a[rank] = TopColumns<columns_chosen, 2>::template more<0>(partial.value, rank);
    Reductions<ArgmaxOfColumns>::Value chosen_best = Reductions<ArgmaxOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{a[rank] + values.bonus[rank]}};
      Reductions<ArgmaxOfColumns>::include(chosen_best, terms, {0, 1, rank});
    }
    const int best = ArgmaxOfColumns::result(chosen_best.value);
    int i[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      i[rank] = TopColumns<columns_chosen, 2>::column(partial.value, rank);
    Reductions<CountOfColumns>::Value chosen_c = Reductions<CountOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{(params.least_number < v_[rank]) ? 1.0f : 0.0f}};
      Reductions<CountOfColumns>::include(chosen_c, terms, {0, 1, rank});
    }
    const int c = CountOfColumns::result(chosen_c.value);
    float b[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      b[rank] = TopColumns<columns_chosen, 2>::template more<1>(partial.value, rank);
    Reductions<MomentsOfColumns>::Value chosen_variance = Reductions<MomentsOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{b[rank]}};
      Reductions<MomentsOfColumns>::include(chosen_variance, terms, {0, 1, rank});
    }
    const float variance = MomentsOfColumns::variance(chosen_variance.value);
    const float mu = MomentsOfColumns::mean(chosen_variance.value);
    values.m = m;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.v24[rank] = rounded<bf16>(((rank == best) ? 0.0f : (a[rank] - m)));
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.v28[rank] = integer_of((static_cast<float>(i[rank]) + static_cast<float>(c)));
    values.v29 = variance - mu;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {}
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_chosen<bf16>(params.value_address, row * params.value_stride, values.v24);
    store_chosen<int>(params.column_address, row * params.column_stride, values.v28);
    store_value<float>(params.spread_address, row, values.v29);
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      store_value<float>(params.one_address, row * params.one_stride + rank, values.m);
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
};

static constexpr tunesmith::PersistentConfig config = {
    .vectors = 2,
    .batches = 2,
    .rows_at_once = 2,
    .keeps_columns = false,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::ProgramGroup<128, 2>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .w_address = {}, .bonus_address = {}, .bonus_stride = {}, .value_address = {}, .value_stride = {}, .column_address = {}, .column_stride = {}, .spread_address = {}, .one_address = {}, .one_stride = {}, .least_number = {}}) == 248, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::w_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::bonus_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::bonus_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::value_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::value_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::column_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::column_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::spread_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::one_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::one_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::least_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_persistent<tunesmith::Program, shape, config, Group>(params);
}
