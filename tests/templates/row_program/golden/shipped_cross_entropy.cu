/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* target_address;
  void* loss_address;
  void* lse_out_address;
  int64 ignore_index_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 2;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns>, Reductions<SumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    int target;
    float v3;
    bool v9;
    float l;
    float t;
    bool v17;
    float v19;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 0, .groups = 0, .maximum_of = 0, .gathers = 1};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 0, .columns = 0, .groups = 0};
  }
  template <int number>
  static __device__ __forceinline__ constexpr PassUses uses_of_gather() {
    if constexpr (number == 0) return {.inputs = 1, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    const int target = load_integer(params.target_address, row);
    values.target = target;
    values.v17 = target == static_cast<int>(params.ignore_index_number);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = v.input[0][j];
  }
  static __device__ __forceinline__ auto column_to_gather(OfGather<0>, const Params& params, int64 row, const Values& values) {
    return values.target;
  }
  template <typename Vector>
  static __device__ __forceinline__ void gather(OfGather<0>, const Params& params, const Vector& v, int j, Values& values) {
    values.t = (((static_cast<int>(v.column) + j) == values.target) ? v.input[0][j] : 0.0f) + 0.0f;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float v3 = MaximumOfColumns::result(partial.value);
    values.v3 = v3;
    values.v9 = (v3 - v3) == 0.0f;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = exponential_of_rounded((v.input[0][j] - values.v3));
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float l = values.v9 ? (values.v3 + logarithm(SumOfColumns::result(partial.value))) : values.v3;
    values.l = l;
    values.v19 = values.v17 ? 0.0f : (l - values.t);
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {}
  static __device__ __forceinline__ void store_row(const Params& params, int64 row, const Values& values) {
    store_value<float>(params.loss_address, row, values.v19);
    store_value<float>(params.lse_out_address, row, values.l);
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
  using Prefetch = tunesmith::NoPrefetch;
};

static constexpr tunesmith::ResidentConfig config = {
    .register_vectors = 1,
    .shared_vectors = 0,
    .load = tunesmith::LoadHint::no_allocate,
    .store = tunesmith::StoreHint::plain,
};

using Group = tunesmith::ClusterGroup<256, 2>;
using Storage = tunesmith::InRegisters<tunesmith::PackedVector>;

static_assert(sizeof(tunesmith::RowParams) == 160, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .target_address = {}, .loss_address = {}, .lse_out_address = {}, .ignore_index_number = {}}) == 192, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::target_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::loss_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::lse_out_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::ignore_index_number) == 8, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
