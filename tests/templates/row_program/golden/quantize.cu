/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  void* scale_address;
  void* z_address;
  int64 z_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<i8>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float q;
    NormalDivisor by_q;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
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
    terms[0][j] = absolute(v.input[0][j]);
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float a = MaximumOfColumns::result(partial.value);
    const float q = divide(maximum_or_nan(a, 1e-12f), 127.0f);
    values.q = q;
    values.by_q = NormalDivisor(q);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    results[0][j] = values.by_q.divide(v.input[0][j]);  // z
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .scale_address = {}, .z_address = {}, .z_stride = {}}) == 184, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
