/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  void* y_address;
  int64 y_stride;
  int64 vectors;
  int64 vectors_per_row;
  int64 inner;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 2;
  static constexpr int kept = 1;
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
    if constexpr (pass == 3) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 1, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.y_address, params.y_stride};
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
    v.input[0][j] = e;  // kept for the outputs
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float s = SumOfColumns::result(partial.value);
    values.s = s;
    values.by_s = NormalDivisor(s);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float e = exponential_of_rounded((v.input[0][j] - values.m));
    results[0][j] = values.by_s.divide(e);  // y
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs_of_kept(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float e = v.input[0][j];
    results[0][j] = values.by_s.divide(e);  // y
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {}
};

}  // namespace tunesmith

struct Types {
  using Input = tunesmith::bf16;
  using Output = tunesmith::bf16;
};

static constexpr tunesmith::RowShape shape = {
    .cols = 1000,
    .vector = 1,
};

template <>
struct tunesmith::RowFeatures<shape> {
  using Mask = tunesmith::NoMask;
};

static constexpr tunesmith::StridedConfig config = {
    .threads = 256,
    .lanes = 8,
    .vector = 4,
    .columns = 32,
    .blocks_per_row = 1,
    .load = tunesmith::LoadHint::plain,
    .store = tunesmith::StoreHint::plain,
};

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams{.row = {}, .vectors = {}, .vectors_per_row = {}, .first_cols = {}, .second_cols = {}, .output_cols = {}, .first_vectors = {}, .second_vectors = {}, .output_vectors = {}}) == 224, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::vectors) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::vectors_per_row) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::first_cols) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::second_cols) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::output_cols) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::first_vectors) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::second_vectors) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::StridedParams::output_vectors) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .y_address = {}, .y_stride = {}, .vectors = {}, .vectors_per_row = {}, .inner = {}}) == 200, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::vectors) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::vectors_per_row) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::inner) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::program_strided_resident<tunesmith::Program, shape, config>(params);
}
