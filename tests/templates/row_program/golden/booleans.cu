/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* other_address;
  int64 other_stride;
  const void* c_address;
  const void* r_address;
  const void* x_address;
  int64 x_stride;
  void* kept_address;
  int64 kept_stride;
  void* big_address;
  int64 big_stride;
  void* few_address;
  void* y_address;
  int64 y_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = i8;
  using Inputs = TypeList<i8, i8, bf16>;
  using Outputs = TypeList<i8, i8, bf16>;
  using ColumnArrays = ColumnList<Columns<i8, 8, LoadHint::read_only>>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<AnyColumn, CountOfColumns, PlainSumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    bool r;
    bool v19;
    float v23;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 7, .columns = 1, .groups = 0};
    return {.inputs = 7, .columns = 1, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.other_address, params.other_stride};
    if constexpr (which == 2) return {params.x_address, params.x_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.kept_address, params.kept_stride};
    if constexpr (which == 1) return {params.big_address, params.big_stride};
    if constexpr (which == 2) return {params.y_address, params.y_stride};
  }
  template <int which>
  static __device__ __forceinline__ const void* column_array(const Params& params) {
    if constexpr (which == 0) return params.c_address;
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    values.r = load_value<i8>(params.r_address, row) != 0.0f;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const bool keep = v.input[0][j] != 0.0f;
    terms[0][j] = (keep && (!(v.input[1][j] != 0.0f))) ? 1.0f : 0.0f;
    terms[1][j] = (keep == (v.of_column[0][j] != 0.0f)) ? 1.0f : 0.0f;
    terms[2][j] = keep ? v.input[2][j] : 0.0f;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const int n = CountOfColumns::result(partial.value + 1);
    const bool some = AnyColumn::result(partial.value);
    const float s = PlainSumOfColumns::result(partial.value + 2);
    values.v19 = n < 100;
    values.v23 = some ? s : (-1.0f);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[3][vector]) {
    const bool keep = v.input[0][j] != 0.0f;
    const bool c = v.of_column[0][j] != 0.0f;
    const float x = v.input[2][j];
    results[0][j] = ((keep || (v.input[1][j] != 0.0f)) != c) ? 1.0f : 0.0f;  // kept
    results[1][j] = ((1.0f < x) && values.r) ? 1.0f : 0.0f;  // big
    results[2][j] = ((keep && c) || values.r) ? x : values.v23;  // y
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_value<i8>(params.few_address, row, (values.v19 ? 1.0f : 0.0f));
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .other_address = {}, .other_stride = {}, .c_address = {}, .r_address = {}, .x_address = {}, .x_stride = {}, .kept_address = {}, .kept_stride = {}, .big_address = {}, .big_stride = {}, .few_address = {}, .y_address = {}, .y_stride = {}}) == 264, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::other_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::other_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::c_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::r_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::x_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::x_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::kept_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::kept_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::big_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::big_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::few_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::y_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
