/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* residual_address;
  int64 residual_stride;
  const void* w_address;
  const void* dsum_out_address;
  int64 dsum_out_stride;
  const void* dy_address;
  int64 dy_stride;
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
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 1;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<PlainSumOfColumns, PlainSumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float t1;
    float v22;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 11, .columns = 1, .groups = 0};
    return {.inputs = 15, .columns = 1, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.residual_address, params.residual_stride};
    if constexpr (which == 2) return {params.dsum_out_address, params.dsum_out_stride};
    if constexpr (which == 3) return {params.dy_address, params.dy_stride};
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

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float t2 = v.input[3][j] * v.of_column[0][j];
    terms[0][j] = h * h;
    terms[1][j] = t2 * h;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float ms = multiply(PlainSumOfColumns::result(partial.value), reciprocal_approx(static_cast<float>(params.row.cols)));
    const float t1 = reciprocal_sqrt((ms + params.eps_number));
    const float t3 = PlainSumOfColumns::result(partial.value + 1);
    const float d_ms = ((t3 * (-0.5f)) * (t1 * t1)) * t1;
    values.t1 = t1;
    values.v22 = divide(d_ms, static_cast<float>(params.row.cols));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[3][vector]) {
    const float dy = v.input[3][j];
    const float t2 = dy * v.of_column[0][j];
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float t4 = values.v22 * h;
    const float d_h = ((v.input[2][j] + (t2 * values.t1)) + t4) + t4;
    const float t5 = rounded<bf16>(d_h);
    results[0][j] = t5;  // dx
    results[1][j] = t5;  // dresidual
    results[2][j] = dy * (h * values.t1);  // of dw
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .residual_address = {}, .residual_stride = {}, .w_address = {}, .dsum_out_address = {}, .dsum_out_stride = {}, .dy_address = {}, .dy_stride = {}, .dx_address = {}, .dx_stride = {}, .dresidual_address = {}, .dresidual_stride = {}, .dw_address = {}, .eps_number = {}}) == 264, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::residual_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::residual_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::w_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dsum_out_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dsum_out_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dy_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dy_stride) == 8, "the host fills the parameters by this layout");
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
