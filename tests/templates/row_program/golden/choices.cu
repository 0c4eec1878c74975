/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* t_address;
  void* best_address;
  void* worst_address;
  void* some_address;
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
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<ArgmaxOfColumns, ArgminOfColumns, CountOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    int t;
    int i;
    int k;
    int c;
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
    if constexpr (which == 0) return {params.y_address, params.y_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.t = load_integer(params.t_address, row);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float x = v.input[0][j];
    terms[0][j] = x;
    terms[1][j] = x;
    terms[2][j] = (0.0f < x) ? 1.0f : 0.0f;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const int i = ArgmaxOfColumns::result(partial.value);
    const int k = ArgminOfColumns::result(partial.value + 2);
    const int c = CountOfColumns::result(partial.value + 4);
    values.i = i;
    values.k = k;
    values.c = c;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    results[0][j] = ((static_cast<int>(v.column) + j) == values.t) ? v.input[0][j] : 0.0f;  // y
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_integer(params.best_address, row, values.i);
    store_integer(params.worst_address, row, values.k);
    store_integer(params.some_address, row, values.c);
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .t_address = {}, .best_address = {}, .worst_address = {}, .some_address = {}, .y_address = {}, .y_stride = {}}) == 208, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::t_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::best_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::worst_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::some_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(128, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_persistent<tunesmith::Program, shape, config, Group>(params);
}
