/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* scale_address;
  int64 scale_stride;
  void* largest_address;
  void* all_scales_address;
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
  static constexpr int sums = 2;
  static constexpr int totals = 2;
  static constexpr int columns_of_group = 32;
  template <int stage>
  using RowReductions = Reductions<>;
  template <int stage>
  using GroupReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>>::type;
  struct Values {};
  struct Groups {
    float v7;
  };

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 0, .columns = 0, .groups = 0};
    return {.inputs = 1, .columns = 0, .groups = 1};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void group_terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      const Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = absolute(v.input[0][j]);
  }
  template <typename Vector>
  static __device__ __forceinline__ void derive_group(OfStage<1>, const Params& params, const Values& values, const Vector& v,
      const GroupReductions<1>::Value& partial, Groups& groups) {
    const float a = MaximumOfColumns::result(partial.value);
    groups.v7 = divide(a, (1.0f + absolute(load_of_group<float, columns_of_group>(params.scale_address, params.scale_stride, params.row.cols, v))));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float v9 = static_cast<float>((static_cast<int>(v.column) + j));
    const bool v15 = (round_down((v9 * 0.03125f)) * 32.0f) == v9;
    results[0][j] = v15 ? groups.v7 : 0.0f;  // of largest
    results[1][j] = v15 ? load_of_group<float, columns_of_group>(params.scale_address, params.scale_stride, params.row.cols, v) : 0.0f;  // of all_scales
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
  template <int which>
  static __device__ __forceinline__ void store_sum(const Params& params, int64 column, float sum) {
    if constexpr (which == 0) store_value<float>(params.largest_address, column, sum);
    if constexpr (which == 1) store_value<float>(params.all_scales_address, column, sum);
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .scale_address = {}, .scale_stride = {}, .largest_address = {}, .all_scales_address = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::largest_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::all_scales_address) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_sums_persistent<tunesmith::WithTotals<tunesmith::Program>, shape, config, Group>(params);
}

extern "C" __global__ void __launch_bounds__(512)
row_program_column_sums(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_sums_and_totals<tunesmith::Program, shape, 512, 8, tunesmith::rows_of_partial, 2>(params);
}
