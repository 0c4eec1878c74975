/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* dz_address;
  int64 dz_stride;
  const void* dscale_address;
  void* dx_address;
  int64 dx_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns, PlainSumOfColumns, ArgmaxOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dscale;
    float q;
    float d_largest;
    int t3;
    NormalDivisor by_q;
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
    if constexpr (which == 1) return {params.dz_address, params.dz_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dx_address, params.dx_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.dscale = load_value<float>(params.dscale_address, row);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    const float t1 = absolute(x);
    terms[0][j] = t1;
    terms[1][j] = v.input[1][j] * x;
    terms[2][j] = t1;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float largest = MaximumOfColumns::result(partial.value);
    const float q = divide(maximum_or_nan(largest, 1e-12f), 448.0f);
    const float t2 = PlainSumOfColumns::result(partial.value + 1);
    const float d_q = values.dscale - (divide(divide(1.0f, q), q) * t2);
    const float d_largest = (1e-12f < largest) ? divide(d_q, 448.0f) : 0.0f;
    const int t3 = ArgmaxOfColumns::result(partial.value + 2);
    values.q = q;
    values.d_largest = d_largest;
    values.t3 = t3;
    values.by_q = NormalDivisor(q);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float x = v.input[0][j];
    const float t4 = ((static_cast<int>(v.column) + j) == values.t3) ? values.d_largest : 0.0f;
    results[0][j] = values.by_q.divide(v.input[1][j]) + ((0.0f < x) ? t4 : ((x < 0.0f) ? (-t4) : 0.0f));  // dx
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

static constexpr tunesmith::PersistentConfig config = {
    .vectors = 2,
    .batches = 2,
    .rows_at_once = 2,
    .keeps_columns = false,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::ProgramGroup<128, 2>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .dz_address = {}, .dz_stride = {}, .dscale_address = {}, .dx_address = {}, .dx_stride = {}}) == 200, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dz_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dz_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dscale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_persistent<tunesmith::Program, shape, config, Group>(params);
}
