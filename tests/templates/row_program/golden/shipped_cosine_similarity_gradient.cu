/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* b_address;
  int64 b_stride;
  const void* dy_address;
  void* da_address;
  int64 da_stride;
  void* db_address;
  int64 db_stride;
  float eps_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, bf16>;
  using Outputs = TypeList<bf16, bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<SumOfColumns, SumOfColumns, SumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dy;
    float d_ab;
    float d_bb;
    float d_aa;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 3, .columns = 0, .groups = 0};
    return {.inputs = 3, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.b_address, params.b_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.da_address, params.da_stride};
    if constexpr (which == 1) return {params.db_address, params.db_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.dy = load_value<float>(params.dy_address, row);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float a = v.input[0][j];
    const float b = v.input[1][j];
    terms[0][j] = a * b;
    terms[1][j] = a * a;
    terms[2][j] = b * b;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float aa = SumOfColumns::result(partial.value + 2);
    const float t1 = square_root(aa);
    const float t2 = maximum_or_nan(t1, params.eps_number);
    const float bb = SumOfColumns::result(partial.value + 4);
    const float t3 = square_root(bb);
    const float t4 = maximum_or_nan(t3, params.eps_number);
    const float t5 = t2 * t4;
    const float d_ab = divide(values.dy, t5);
    const float ab = SumOfColumns::result(partial.value);
    const float t6 = divide((values.dy * divide(ab, t5)), t5);
    const float d_bb = divide((((params.eps_number < t3) ? (-(t6 * t2)) : 0.0f) * 0.5f), t3);
    const float d_aa = divide((((params.eps_number < t1) ? (-(t6 * t4)) : 0.0f) * 0.5f), t1);
    values.d_ab = d_ab;
    values.d_bb = d_bb;
    values.d_aa = d_aa;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float a = v.input[0][j];
    const float t8 = values.d_aa * a;
    const float b = v.input[1][j];
    const float t7 = values.d_bb * b;
    results[0][j] = (t8 + t8) + (values.d_ab * b);  // da
    results[1][j] = (t7 + t7) + (values.d_ab * a);  // db
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .b_address = {}, .b_stride = {}, .dy_address = {}, .da_address = {}, .da_stride = {}, .db_address = {}, .db_stride = {}, .eps_number = {}}) == 224, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dy_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::da_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::da_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::db_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::db_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::eps_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
