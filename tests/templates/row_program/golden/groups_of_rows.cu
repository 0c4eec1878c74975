/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* scale_address;
  int64 scale_stride;
  void* y_address;
  int64 y_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 2;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 32;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<CountOfColumns>, Reductions<MaximumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float v8;
    float m;
  };
  struct Groups {
    float q;
    float v12;
  };

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 1};
    return {.inputs = 1, .columns = 0, .groups = 2};
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
    terms[0][j] = (0.0f < v.input[0][j]) ? 1.0f : 0.0f;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const int c = CountOfColumns::result(partial.value);
    values.v8 = static_cast<float>(c);
  }
  template <typename Vector>
  static __device__ __forceinline__ void derive_group(OfStage<1>, const Params& params, const Values& values, const Vector& v,
      const GroupReductions<1>::Value& partial, Groups& groups) {
    const float q = divide(values.v8, (absolute(load_of_group<float, columns_of_group>(params.scale_address, params.scale_stride, params.row.cols, v)) + 0.5f));
    groups.q = q;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j] * groups.q;
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float m = MaximumOfColumns::result(partial.value);
    values.m = m;
  }
  template <typename Vector>
  static __device__ __forceinline__ void derive_group(OfStage<2>, const Params& params, const Values& values, const Vector& v,
      const GroupReductions<2>::Value& partial, Groups& groups) {
    groups.v12 = groups.q * values.m;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    results[0][j] = v.input[0][j] + groups.v12;  // y
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .scale_address = {}, .scale_stride = {}, .y_address = {}, .y_stride = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_persistent<tunesmith::Program, shape, config, Group>(params);
}
