/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* j_address;
  int64 j_stride;
  const void* p_address;
  const void* x_address;
  int64 x_stride;
  const void* t_address;
  void* moved_address;
  int64 moved_stride;
  void* own_address;
  int64 own_stride;
  void* y_address;
  int64 y_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = int;
  using Inputs = TypeList<int, int, bf16>;
  using Outputs = TypeList<int, int, bf16>;
  using ColumnArrays = ColumnList<Columns<int, 4>>;
  static constexpr int stages = 0;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = Reductions<>;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    int t;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    return {.inputs = 7, .columns = 1, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.j_address, params.j_stride};
    if constexpr (which == 2) return {params.x_address, params.x_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.moved_address, params.moved_stride};
    if constexpr (which == 1) return {params.own_address, params.own_stride};
    if constexpr (which == 2) return {params.y_address, params.y_stride};
  }
  template <int which>
  static __device__ __forceinline__ const void* column_array(const Params& params) {
    if constexpr (which == 0) return params.p_address;
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.t = load_integer(params.t_address, row);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[3][vector]) {
    const int i = integer_of_number(v.input[0][j]);
    const int j_ = integer_of_number(v.input[1][j]);
    const int p = integer_of_number(v.of_column[0][j]);
    results[0][j] = number_with<float>(((i < j_) ? i : maximum_or_nan(j_, p)));  // moved
    results[1][j] = number_with<float>(((i == (static_cast<int>(v.column) + j)) ? static_cast<int>(v.row) : ((p != values.t) ? p : 16777217)));  // own
    results[2][j] = ((p <= i) && (-16777219 < j_)) ? v.input[2][j] : 0.5f;  // y
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
    .load = tunesmith::LoadHint::evict_last,
    .load_again = tunesmith::LoadHint::evict_first,
    .store = tunesmith::StoreHint::plain,
};

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .j_address = {}, .j_stride = {}, .p_address = {}, .x_address = {}, .x_stride = {}, .t_address = {}, .moved_address = {}, .moved_stride = {}, .own_address = {}, .own_stride = {}, .y_address = {}, .y_stride = {}}) == 256, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::j_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::j_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::p_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::x_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::x_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::t_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::moved_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::moved_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::own_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::own_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 2)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_two_pass<tunesmith::Program, shape, config>(params);
}
