/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* scale_address;
  int64 scale_stride;
  const void* x_address;
  int64 x_stride;
  void* y_out_address;
  int64 y_out_stride;
  void* top_address;
  int64 top_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = e4m3;
  using Inputs = TypeList<e4m3, bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 32;
  template <int stage>
  using RowReductions = Reductions<>;
  template <int stage>
  using GroupReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>>::type;
  struct Values {};
  struct Groups {
    float v11;
    float v15;
    Divisor by_v11;
  };

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 0, .columns = 0, .groups = 0};
    return {.inputs = 3, .columns = 0, .groups = 1};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.x_address, params.x_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.y_out_address, params.y_out_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void group_terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      const Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = absolute(v.input[1][j]) * load_of_group<float, columns_of_group>(params.scale_address, params.scale_stride, params.row.cols, v);
  }
  template <typename Vector>
  static __device__ __forceinline__ void derive_group(OfStage<1>, const Params& params, const Values& values, const Vector& v,
      const GroupReductions<1>::Value& partial, Groups& groups) {
    const float a = MaximumOfColumns::result(partial.value);
    const float scale = load_of_group<float, columns_of_group>(params.scale_address, params.scale_stride, params.row.cols, v);
    const float v11 = a + scale;
    groups.v11 = v11;
    groups.v15 = a * scale;
    groups.by_v11 = Divisor::of_group(v11);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float scale = load_of_group<float, columns_of_group>(params.scale_address, params.scale_stride, params.row.cols, v);
    const float y = divide((v.input[0][j] * scale), (absolute(scale) + 1.0f));
    results[0][j] = y + groups.by_v11.divide(v.input[1][j]);  // y_out
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {
    store_value<float>(params.top_address, row * params.top_stride + group, groups.v15);
  }
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .scale_address = {}, .scale_stride = {}, .x_address = {}, .x_stride = {}, .y_out_address = {}, .y_out_stride = {}, .top_address = {}, .top_stride = {}}) == 224, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::x_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::x_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_out_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_out_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::top_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::top_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
