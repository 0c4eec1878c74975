/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* i_address;
  int64 i_stride;
  const void* g_address;
  int64 g_stride;
  const void* b_address;
  int64 b_stride;
  void* place_address;
  int64 place_stride;
  void* flag_address;
  int64 flag_stride;
  void* same_address;
  int64 same_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, int>;
  using Outputs = TypeList<int>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 32;
  template <int stage>
  using RowReductions = Reductions<>;
  template <int stage>
  using GroupReductions = typename TypeAt<stage - 1, Reductions<ArgmaxOfColumns, AnyColumn>>::type;
  struct Values {};
  struct Groups {
    int v9;
    bool v10;
  };

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 0, .columns = 0, .groups = 0};
    return {.inputs = 3, .columns = 0, .groups = 1};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.i_address, params.i_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.same_address, params.same_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {}
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {}
  template <typename Vector, int vector>
  static __device__ __forceinline__ void group_terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      const Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    terms[0][j] = x;
    terms[1][j] = (2.0f < x) ? 1.0f : 0.0f;
  }
  template <typename Vector>
  static __device__ __forceinline__ void derive_group(OfStage<1>, const Params& params, const Values& values, const Vector& v,
      const GroupReductions<1>::Value& partial, Groups& groups) {
    const int k = ArgmaxOfColumns::result(partial.value);
    const int g = integer_of_number(load_of_group<int, columns_of_group>(params.g_address, params.g_stride, params.row.cols, v));
    const bool a = AnyColumn::result(partial.value + 2);
    groups.v9 = (k < g) ? g : k;
    groups.v10 = a && (load_of_group<i8, columns_of_group>(params.b_address, params.b_stride, params.row.cols, v) != 0.0f);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const int g = integer_of_number(load_of_group<int, columns_of_group>(params.g_address, params.g_stride, params.row.cols, v));
    const int i = integer_of_number(v.input[1][j]);
    results[0][j] = number_with<float>((((load_of_group<i8, columns_of_group>(params.b_address, params.b_stride, params.row.cols, v) != 0.0f) && (g != i)) ? i : g));  // same
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {}
  static __device__ __forceinline__ void store_groups(const Params& params, int64 row, int64 group, const Groups& groups) {
    store_integer(params.place_address, row * params.place_stride + group, groups.v9);
    store_value<i8>(params.flag_address, row * params.flag_stride + group, (groups.v10 ? 1.0f : 0.0f));
  }
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

static constexpr tunesmith::PersistentConfig config = {
    .vectors = 4,
    .batches = 2,
    .rows_at_once = 2,
    .keeps_columns = false,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::ProgramGroup<128, 2>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .i_address = {}, .i_stride = {}, .g_address = {}, .g_stride = {}, .b_address = {}, .b_stride = {}, .place_address = {}, .place_stride = {}, .flag_address = {}, .flag_stride = {}, .same_address = {}, .same_stride = {}}) == 256, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::i_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::i_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::g_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::g_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::b_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::place_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::place_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::flag_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::flag_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::same_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::same_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_persistent<tunesmith::Program, shape, config, Group>(params);
}
