/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* r_address;
  int64 r_stride;
  const void* w_address;
  void* res_address;
  int64 res_stride;
  void* scale_address;
  void* z_address;
  int64 z_stride;
  float eps_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, bf16>;
  using Outputs = TypeList<bf16, e4m3>;
  using ColumnArrays = ColumnList<Columns<float, 4>>;
  static constexpr int stages = 2;
  static constexpr int kept = 2;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<SumOfColumns>, Reductions<MaximumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float v12;
    float q;
    NormalDivisor by_q;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 3, .columns = 0, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 3, .columns = 1, .groups = 0};
    if constexpr (pass == 3) return {.inputs = 3, .columns = 1, .groups = 0};
    return {.inputs = 3, .columns = 1, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.r_address, params.r_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.res_address, params.res_stride};
    if constexpr (which == 1) return {params.z_address, params.z_stride};
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
    terms[0][j] = h * h;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float ss = SumOfColumns::result(partial.value);
    values.v12 = reciprocal_sqrt((divide(ss, static_cast<float>(params.row.cols)) + params.eps_number));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float v4 = v.input[0][j] + v.input[1][j];
    const float h = rounded<bf16>(v4);
    const float y = (h * values.v12) * (1.0f + v.of_column[0][j]);
    const float v17 = absolute(y);
    terms[0][j] = v17;
    v.input[0][j] = v17;  // kept for the outputs
    v.input[1][j] = v4;  // kept for the outputs
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float a = MaximumOfColumns::result(partial.value);
    const float q = divide(maximum_or_nan(a, 1e-12f), 448.0f);
    values.q = q;
    values.by_q = NormalDivisor(q);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float h = rounded<bf16>((v.input[0][j] + v.input[1][j]));
    const float y = (h * values.v12) * (1.0f + v.of_column[0][j]);
    results[0][j] = h;  // res
    results[1][j] = values.by_q.divide(y);  // z
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs_of_kept(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float v17 = v.input[0][j];
    const float v4 = v.input[1][j];
    const float h = rounded<bf16>(v4);
    const float y = (h * values.v12) * (1.0f + v.of_column[0][j]);
    results[0][j] = h;  // res
    results[1][j] = values.by_q.divide(y);  // z
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_value<float>(params.scale_address, row, values.q);
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .r_address = {}, .r_stride = {}, .w_address = {}, .res_address = {}, .res_stride = {}, .scale_address = {}, .z_address = {}, .z_stride = {}, .eps_number = {}}) == 232, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::r_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::r_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::w_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::res_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::res_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::eps_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
