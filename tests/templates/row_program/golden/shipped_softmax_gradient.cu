/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* dy_address;
  int64 dy_stride;
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
  static constexpr int stages = 3;
  static constexpr int kept = 2;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>, Reductions<PlainSumOfColumns>, Reductions<PlainSumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float v2;
    bool v8;
    float t1;
    float t4;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0, .maximum_of = 0};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    if constexpr (pass == 3) return {.inputs = 3, .columns = 0, .groups = 0};
    if constexpr (pass == 4) return {.inputs = 3, .columns = 0, .groups = 0};
    return {.inputs = 3, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.dy_address, params.dy_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dx_address, params.dx_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float v2 = MaximumOfColumns::result(partial.value);
    values.v2 = v2;
    values.v8 = (v2 - v2) == 0.0f;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = exponential_of_rounded((v.input[0][j] - values.v2));
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float t1 = values.v8 ? (values.v2 + logarithm(PlainSumOfColumns::result(partial.value))) : values.v2;
    values.t1 = t1;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<3>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float t2 = exponential_of_rounded((v.input[0][j] - values.t1));
    const float t3 = v.input[1][j] * t2;
    terms[0][j] = t3;
    v.input[0][j] = t3;  // kept for the outputs
    v.input[1][j] = t2;  // kept for the outputs
  }
  static __device__ __forceinline__ void derive(OfStage<3>, const Params& params, int64 row, const RowReductions<3>::Value& partial,
      Values& values) {
    const float t4 = PlainSumOfColumns::result(partial.value);
    values.t4 = t4;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float t2 = exponential_of_rounded((v.input[0][j] - values.t1));
    const float t3 = v.input[1][j] * t2;
    results[0][j] = t3 - (values.t4 * t2);  // dx
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs_of_kept(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float t3 = v.input[0][j];
    const float t2 = v.input[1][j];
    results[0][j] = t3 - (values.t4 * t2);  // dx
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
  using Prefetch = tunesmith::PrefetchLaterRow<2, 1>;
};

static constexpr tunesmith::ResidentConfig config = {
    .register_vectors = 2,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::plain,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::BlockGroup<256>;
using Storage = tunesmith::InRegisters<tunesmith::FloatVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .dy_address = {}, .dy_stride = {}, .dx_address = {}, .dx_stride = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dy_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dy_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
