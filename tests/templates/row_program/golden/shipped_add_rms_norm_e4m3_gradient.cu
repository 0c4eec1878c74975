/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* residual_address;
  int64 residual_stride;
  const void* w_address;
  const void* dsum_out_address;
  int64 dsum_out_stride;
  const void* dscale_address;
  const void* dz_address;
  int64 dz_stride;
  void* dx_address;
  int64 dx_stride;
  void* dresidual_address;
  int64 dresidual_stride;
  void* dw_address;
  float eps_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, bf16, bf16, bf16>;
  using Outputs = TypeList<bf16, bf16>;
  using ColumnArrays = ColumnList<Columns<bf16, 8>>;
  static constexpr int stages = 3;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 1;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<PlainSumOfColumns, PlainSumOfColumns>, Reductions<MaximumOfColumns, ArgmaxOfColumns>, Reductions<PlainSumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dscale;
    float t1;
    float q;
    float t5;
    float d_largest;
    int t6;
    float v50;
    float v55;
    NormalDivisor by_q;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 11, .columns = 1, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 3, .columns = 1, .groups = 0};
    if constexpr (pass == 3) return {.inputs = 11, .columns = 1, .groups = 0};
    return {.inputs = 15, .columns = 1, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.residual_address, params.residual_stride};
    if constexpr (which == 2) return {params.dsum_out_address, params.dsum_out_stride};
    if constexpr (which == 3) return {params.dz_address, params.dz_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dx_address, params.dx_stride};
    if constexpr (which == 1) return {params.dresidual_address, params.dresidual_stride};
  }
  template <int which>
  static __device__ __forceinline__ const void* column_array(const Params& params) {
    if constexpr (which == 0) return params.w_address;
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.dscale = load_value<float>(params.dscale_address, row);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float t3 = 1.0f + v.of_column[0][j];
    terms[0][j] = h * h;
    terms[1][j] = v.input[3][j] * (h * t3);
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float ms = multiply(PlainSumOfColumns::result(partial.value), reciprocal_approx(static_cast<float>(params.row.cols)));
    const float t1 = reciprocal_sqrt((ms + params.eps_number));
    const float t5 = PlainSumOfColumns::result(partial.value + 1);
    values.t1 = t1;
    values.t5 = t5;
    values.v50 = t1 * t1;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float t2 = h * values.t1;
    const float t3 = 1.0f + v.of_column[0][j];
    const float y = t2 * t3;
    const float t4 = absolute(y);
    terms[0][j] = t4;
    terms[1][j] = t4;
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float largest = MaximumOfColumns::result(partial.value);
    const float q = divide(maximum_or_nan(largest, 1e-12f), 448.0f);
    const float d_q = values.dscale - (divide(divide(values.t1, q), q) * values.t5);
    const float d_largest = (1e-12f < largest) ? divide(d_q, 448.0f) : 0.0f;
    const int t6 = ArgmaxOfColumns::result(partial.value + 1);
    values.q = q;
    values.d_largest = d_largest;
    values.t6 = t6;
    values.by_q = NormalDivisor(q);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<3>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float t2 = h * values.t1;
    const float t3 = 1.0f + v.of_column[0][j];
    const float y = t2 * t3;
    const float t7 = ((static_cast<int>(v.column) + j) == values.t6) ? values.d_largest : 0.0f;
    const float d_y = values.by_q.divide(v.input[3][j]) + ((0.0f < y) ? t7 : ((y < 0.0f) ? (-t7) : 0.0f));
    const float t8 = d_y * t3;
    terms[0][j] = t8 * h;
  }
  static __device__ __forceinline__ void derive(OfStage<3>, const Params& params, int64 row, const RowReductions<3>::Value& partial,
      Values& values) {
    const float t9 = PlainSumOfColumns::result(partial.value);
    const float d_ms = ((t9 * (-0.5f)) * values.v50) * values.t1;
    values.v55 = divide(d_ms, static_cast<float>(params.row.cols));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[3][vector]) {
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float t2 = h * values.t1;
    const float t3 = 1.0f + v.of_column[0][j];
    const float y = t2 * t3;
    const float t7 = ((static_cast<int>(v.column) + j) == values.t6) ? values.d_largest : 0.0f;
    const float d_y = values.by_q.divide(v.input[3][j]) + ((0.0f < y) ? t7 : ((y < 0.0f) ? (-t7) : 0.0f));
    const float t8 = d_y * t3;
    const float t10 = values.v55 * h;
    const float d_h = ((v.input[2][j] + (t8 * values.t1)) + t10) + t10;
    const float t11 = rounded<bf16>(d_h);
    results[0][j] = t11;  // dx
    results[1][j] = t11;  // dresidual
    results[2][j] = d_y * t2;  // of dw
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
  template <int which>
  static __device__ __forceinline__ void store_sum(const Params& params, int64 column, float sum) {
    if constexpr (which == 0) store_value<bf16>(params.dw_address, column, sum);
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
  using Prefetch = tunesmith::NoPrefetch;
};

static constexpr tunesmith::ResidentConfig config = {
    .register_vectors = 1,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::plain,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::ClusterGroup<256, 2>;
using Storage = tunesmith::InRegisters<tunesmith::PackedVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .residual_address = {}, .residual_stride = {}, .w_address = {}, .dsum_out_address = {}, .dsum_out_stride = {}, .dscale_address = {}, .dz_address = {}, .dz_stride = {}, .dx_address = {}, .dx_stride = {}, .dresidual_address = {}, .dresidual_stride = {}, .dw_address = {}, .eps_number = {}}) == 272, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::residual_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::residual_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::w_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dsum_out_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dsum_out_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dscale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dz_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dz_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dresidual_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dresidual_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dw_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::eps_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_sums_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}

extern "C" __global__ void __launch_bounds__(512)
row_program_column_sums(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_column_sums<tunesmith::Program, shape, 512, 8, tunesmith::rows_of_partial>(params);
}
