/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* i_address;
  int64 i_stride;
  void* y_address;
  int64 y_stride;
  void* n_address;
  int64 n_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, int>;
  using Outputs = TypeList<bf16, int>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 2;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>, Reductions<SumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float m;
    float s;
    NormalDivisor by_s;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0, .maximum_of = 0};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 3, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.i_address, params.i_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.y_address, params.y_stride};
    if constexpr (which == 1) return {params.n_address, params.n_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float m = MaximumOfColumns::result(partial.value);
    values.m = m;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float e = exponential_of_rounded((v.input[0][j] - values.m));
    terms[0][j] = e;
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float s = SumOfColumns::result(partial.value);
    values.s = s;
    values.by_s = NormalDivisor(s);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float e = exponential_of_rounded((v.input[0][j] - values.m));
    results[0][j] = values.by_s.divide(e);  // y
    results[1][j] = number_with<float>(integer_of_number(v.input[1][j]));  // n
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
};

}  // namespace tunesmith

static constexpr tunesmith::RowShape shape = {
    .cols = 4096,
    .vector = 4,
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .i_address = {}, .i_stride = {}, .y_address = {}, .y_stride = {}, .n_address = {}, .n_stride = {}}) == 208, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::i_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::i_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::n_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::n_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
