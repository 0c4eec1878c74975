/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* t_address;
  void* loss_address;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 2;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 1;
  static constexpr int totals = 1;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>, Reductions<SumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    int t;
    float v2;
    bool v8;
    float picked;
    bool v17;
    float v22;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0, .maximum_of = 0, .gathers = 1};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 0, .columns = 0, .groups = 0};
  }
  template <int number>
  static __device__ __forceinline__ constexpr PassUses uses_of_gather() {
    if constexpr (number == 0) return {.inputs = 1, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    const int t = load_integer(params.t_address, row);
    values.t = t;
    values.v17 = t < 0;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ auto column_to_gather(OfGather<0>, const Params& params, int64 row, const Values& values) {
    return values.t;
  }
  template <typename Vector>
  static __device__ __forceinline__ void gather(OfGather<0>, const Params& params, const Vector& v, int j, Values& values) {
    values.picked = (((static_cast<int>(v.column) + j) == values.t) ? v.input[0][j] : 0.0f) + 0.0f;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float v2 = MaximumOfColumns::result(partial.value);
    values.v2 = v2;
    values.v8 = (v2 - v2) == 0.0f;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = exponential_of_rounded((v.input[0][j] - values.v2));
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float l = values.v8 ? (values.v2 + logarithm(SumOfColumns::result(partial.value))) : values.v2;
    values.v22 = divide((values.v17 ? 0.0f : (l - values.picked)), static_cast<float>(static_cast<int>(params.row.rows)));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    results[0][j] = ((static_cast<int>(v.column) + j) == 0) ? values.v22 : 0.0f;  // of loss
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
  template <int which>
  static __device__ __forceinline__ void store_sum(const Params& params, int64 column, float sum) {
    if constexpr (which == 0) store_value<float>(params.loss_address, column, sum);
  }
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .t_address = {}, .loss_address = {}}) == 176, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::t_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::loss_address) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_sums_persistent<tunesmith::WithTotals<tunesmith::Program>, shape, config, Group>(params);
}

extern "C" __global__ void __launch_bounds__(512)
row_program_column_sums(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_sums_and_totals<tunesmith::Program, shape, 512, 8, tunesmith::rows_of_partial, 2>(params);
}
