/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  void* a_address;
  int64 a_stride;
  void* b_address;
  int64 b_stride;
  void* c_address;
  int64 c_stride;
  void* d_address;
  int64 d_stride;
  void* y_address;
  int64 y_stride;
};

// largest
struct Monoid0 {
  static constexpr int components = 1;
  static __device__ __forceinline__ void identity(float* partial) {
    partial[0] = float_of(0xff800000u);
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    const float v2 = maximum_or_nan(partial[0], other[0]);
    const float result0 = v2;
    partial[0] = result0;
  }
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
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
  using GroupReductions = typename TypeAt<stage - 1, Reductions<SumOfColumns, MinimumOfColumns, LogSumExp<false>, MomentsOfColumns, ArgminOfColumns, AnyColumn, AllColumns, CountOfColumns, CustomReduction<Monoid0>>>::type;
  struct Values {};
  struct Groups {
    float m;
    float v_;
    float v18;
    float v22;
    float v25;
  };

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 0, .columns = 0, .groups = 0};
    return {.inputs = 1, .columns = 0, .groups = 1};
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
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void group_terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      const Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    terms[0][j] = x;
    terms[1][j] = x;
    terms[2][j] = x;
    terms[3][j] = x;
    terms[4][j] = x;
    terms[5][j] = (2.0f < x) ? 1.0f : 0.0f;
    terms[6][j] = (x < 2.0f) ? 1.0f : 0.0f;
    terms[7][j] = (0.0f < x) ? 1.0f : 0.0f;
    terms[8][j] = absolute(x);
  }
  template <typename Vector>
  static __device__ __forceinline__ void derive_group(OfStage<1>, const Params& params, const Values& values, const Vector& v,
      const GroupReductions<1>::Value& partial, Groups& groups) {
    const float m = MomentsOfColumns::mean(partial.value + 6);
    const float v_ = MomentsOfColumns::variance(partial.value + 6);
    const float g = divide(SumOfColumns::result(partial.value), static_cast<float>(columns_of_group));
    const float low = MinimumOfColumns::result(partial.value + 2);
    const float l = LogSumExp<false>::result(partial.value + 3);
    const int n = CountOfColumns::result(partial.value + 14);
    const int i = ArgminOfColumns::result(partial.value + 10);
    const bool some = AnyColumn::result(partial.value + 12);
    const float top = partial.value[15];
    const bool each = AllColumns::result(partial.value + 13);
    groups.m = m;
    groups.v_ = v_;
    groups.v18 = (g + low) + l;
    groups.v22 = static_cast<float>(((16 < n) ? i : n));
    groups.v25 = some ? top : (each ? 1.0f : 2.0f);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    results[0][j] = v.input[0][j] - groups.m;  // y
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {
    store_value<float>(params.a_address, row * params.a_stride + group, groups.v18);
    store_value<float>(params.b_address, row * params.b_stride + group, groups.v_);
    store_value<float>(params.c_address, row * params.c_stride + group, groups.v22);
    store_value<float>(params.d_address, row * params.d_stride + group, groups.v25);
  }
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .a_address = {}, .a_stride = {}, .b_address = {}, .b_stride = {}, .c_address = {}, .c_stride = {}, .d_address = {}, .d_stride = {}, .y_address = {}, .y_stride = {}}) == 240, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::a_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::a_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::c_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::c_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::d_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::d_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
