/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  void* y_address;
  int64 y_stride;
  void* z_address;
  int64 z_stride;
  float top_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<float, bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 0;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = Reductions<>;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {};
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    return {.inputs = 1, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.y_address, params.y_stride};
    if constexpr (which == 1) return {params.z_address, params.z_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float x = v.input[0][j];
    const float a = (exponential2(minimum_or_nan(x, 4.0f)) + logarithm_of_one_plus(absolute(x))) + hyperbolic_tangent(x);
    const float v12 = x * 0.5f;
    const float v15 = minimum_or_nan(x, params.top_number);
    const float b = (round_down(x) + round_to_integer(v12)) + (v15 * v15);
    const float c = (maximum_or_nan(x, 0.0f) - (v12 * (1.0f + hyperbolic_tangent((0.7978846f * (x + ((0.044715f * (x * x)) * x))))))) + minimum_or_nan(maximum_or_nan(x, (-1.0f)), 1.0f);
    results[0][j] = a + (b * 0.25f);  // y
    results[1][j] = c;  // z
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
  using Prefetch = tunesmith::NoPrefetch;
};

static constexpr tunesmith::ResidentConfig config = {
    .register_vectors = 4,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::plain,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::BlockGroup<256>;
using Storage = tunesmith::InRegisters<tunesmith::FloatVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .y_address = {}, .y_stride = {}, .z_address = {}, .z_stride = {}, .top_number = {}}) == 200, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::z_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::top_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
