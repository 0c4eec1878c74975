/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* w_address;
  const void* b_address;
  const void* dz_address;
  int64 dz_stride;
  const void* dscale_address;
  void* dx_address;
  int64 dx_stride;
  void* dw_address;
  void* db_address;
  float eps_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<Columns<bf16, 8>, Columns<bf16, 8>>;
  static constexpr int stages = 3;
  static constexpr int kept = 2;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 2;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MomentsAroundAPivot>, Reductions<MaximumOfColumns, PlainSumOfColumns, ArgmaxOfColumns>, Reductions<PlainSumOfColumns, PlainSumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dscale;
    float m;
    float t2;
    float q;
    float d_largest;
    int t6;
    float v47;
    float v56;
    float v60;
    NormalDivisor by_q;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 3, .columns = 3, .groups = 0};
    if constexpr (pass == 3) return {.inputs = 3, .columns = 3, .groups = 0};
    if constexpr (pass == 4) return {.inputs = 3, .columns = 3, .groups = 0};
    return {.inputs = 3, .columns = 1, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.dz_address, params.dz_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dx_address, params.dx_stride};
  }
  template <int which>
  static __device__ __forceinline__ const void* column_array(const Params& params) {
    if constexpr (which == 0) return params.w_address;
    if constexpr (which == 1) return params.b_address;
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.dscale = load_value<float>(params.dscale_address, row);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float m = MomentsAroundAPivot::mean(partial.value);
    const float v_ = MomentsAroundAPivot::variance(partial.value);
    const float t2 = reciprocal_sqrt((v_ + params.eps_number));
    values.m = m;
    values.t2 = t2;
    values.v47 = t2 * t2;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float t1 = v.input[0][j] - values.m;
    const float t3 = t1 * values.t2;
    const float y = (t3 * v.of_column[0][j]) + v.of_column[1][j];
    const float t4 = absolute(y);
    terms[0][j] = t4;
    terms[1][j] = v.input[1][j] * y;
    terms[2][j] = t4;
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float largest = MaximumOfColumns::result(partial.value);
    const float q = divide(maximum_or_nan(largest, 1e-12f), 448.0f);
    const float t5 = PlainSumOfColumns::result(partial.value + 1);
    const float d_q = values.dscale - (divide(divide(1.0f, q), q) * t5);
    const float d_largest = (1e-12f < largest) ? divide(d_q, 448.0f) : 0.0f;
    const int t6 = ArgmaxOfColumns::result(partial.value + 2);
    values.q = q;
    values.d_largest = d_largest;
    values.t6 = t6;
    values.by_q = NormalDivisor(q);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<3>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float t1 = v.input[0][j] - values.m;
    const float t3 = t1 * values.t2;
    const float w = v.of_column[0][j];
    const float y = (t3 * w) + v.of_column[1][j];
    const float t7 = ((static_cast<int>(v.column) + j) == values.t6) ? values.d_largest : 0.0f;
    const float d_y = values.by_q.divide(v.input[1][j]) + ((0.0f < y) ? t7 : ((y < 0.0f) ? (-t7) : 0.0f));
    const float t8 = d_y * w;
    terms[0][j] = t8 * t1;
    terms[1][j] = t8;
    v.input[0][j] = d_y;  // kept for the outputs
    v.input[1][j] = t1;  // kept for the outputs
  }
  static __device__ __forceinline__ void derive(OfStage<3>, const Params& params, int64 row, const RowReductions<3>::Value& partial,
      Values& values) {
    const float t9 = PlainSumOfColumns::result(partial.value);
    const float d_v = ((t9 * (-0.5f)) * values.v47) * values.t2;
    const float t11 = PlainSumOfColumns::result(partial.value + 1);
    values.v56 = 2.0f * divide(d_v, static_cast<float>(params.row.cols));
    values.v60 = divide((values.t2 * t11), static_cast<float>(params.row.cols));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[3][vector]) {
    const float t1 = v.input[0][j] - values.m;
    const float t3 = t1 * values.t2;
    const float w = v.of_column[0][j];
    const float y = (t3 * w) + v.of_column[1][j];
    const float t7 = ((static_cast<int>(v.column) + j) == values.t6) ? values.d_largest : 0.0f;
    const float d_y = values.by_q.divide(v.input[1][j]) + ((0.0f < y) ? t7 : ((y < 0.0f) ? (-t7) : 0.0f));
    const float t8 = d_y * w;
    results[0][j] = ((t8 * values.t2) + (values.v56 * t1)) - values.v60;  // dx
    results[1][j] = d_y * t3;  // of dw
    results[2][j] = d_y;  // of db
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs_of_kept(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[3][vector]) {
    const float d_y = v.input[0][j];
    const float t1 = v.input[1][j];
    const float w = v.of_column[0][j];
    const float t8 = d_y * w;
    const float t3 = t1 * values.t2;
    results[0][j] = ((t8 * values.t2) + (values.v56 * t1)) - values.v60;  // dx
    results[1][j] = d_y * t3;  // of dw
    results[2][j] = d_y;  // of db
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
  template <int which>
  static __device__ __forceinline__ void store_sum(const Params& params, int64 column, float sum) {
    if constexpr (which == 0) store_value<bf16>(params.dw_address, column, sum);
    if constexpr (which == 1) store_value<bf16>(params.db_address, column, sum);
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .w_address = {}, .b_address = {}, .dz_address = {}, .dz_stride = {}, .dscale_address = {}, .dx_address = {}, .dx_stride = {}, .dw_address = {}, .db_address = {}, .eps_number = {}}) == 240, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::w_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dz_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dz_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dscale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dw_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::db_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::eps_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_sums_persistent<tunesmith::Program, shape, config, Group>(params);
}

extern "C" __global__ void __launch_bounds__(512)
row_program_column_sums(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_column_sums<tunesmith::Program, shape, 512, 8, tunesmith::rows_of_partial>(params);
}
