/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* allowed_address;
  int64 allowed_stride;
  const void* every_address;
  void* positive_address;
  int64 positive_stride;
  void* column_address;
  int64 column_stride;
  void* chosen_address;
  int64 chosen_stride;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<i8>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 1;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  static constexpr int columns_chosen = 4;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, ListReductions<TopColumns<columns_chosen, 0>>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    bool allowed[columns_chosen];
    bool every;
    int i[columns_chosen];
    bool v8[columns_chosen];
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 0, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.chosen_address, params.chosen_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.allowed[rank] = load_value<i8>(params.allowed_address, row * params.allowed_stride + rank) != 0.0f;
    values.every = load_value<i8>(params.every_address, 0) != 0.0f;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    int i[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      i[rank] = TopColumns<columns_chosen, 0>::column(partial.value, rank);
    float v_[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v_[rank] = TopColumns<columns_chosen, 0>::value(partial.value, rank);
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.i[rank] = i[rank];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.v8[rank] = ((0.0f < v_[rank]) && values.allowed[rank]) || values.every;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    float v10 = 0.0f;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      v10 = values.i[rank] == static_cast<int>(v.column) + j ? v10 + 1.0f : v10;
    results[0][j] = (0.0f < v10) ? 1.0f : 0.0f;  // chosen
  }
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      store_value<i8>(params.positive_address, row * params.positive_stride + rank, (values.v8[rank] ? 1.0f : 0.0f));
    store_chosen<int>(params.column_address, row * params.column_stride, values.i);
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
    .register_vectors = 2,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::no_allocate,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::BlockGroup<256>;
using Storage = tunesmith::InRegisters<tunesmith::FloatVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .allowed_address = {}, .allowed_stride = {}, .every_address = {}, .positive_address = {}, .positive_stride = {}, .column_address = {}, .column_stride = {}, .chosen_address = {}, .chosen_stride = {}}) == 232, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::allowed_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::allowed_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::every_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::positive_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::positive_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::column_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::column_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::chosen_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::chosen_stride) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
