/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* bias_address;
  const void* dweight_address;
  int64 dweight_stride;
  void* dx_address;
  int64 dx_stride;
  float scale_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16>;
  using Outputs = TypeList<bf16>;
  using ColumnArrays = ColumnList<Columns<float, 4, LoadHint::read_only>>;
  static constexpr int stages = 1;
  static constexpr int kept = 1;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  static constexpr int columns_chosen = 8;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, ListReductions<TopColumns<columns_chosen, 1>>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    int i[columns_chosen];
    float t2[columns_chosen];
    float d_w[columns_chosen];
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 1, .columns = 1, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 1, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dx_address, params.dx_stride};
  }
  template <int which>
  static __device__ __forceinline__ const void* column_array(const Params& params) {
    if constexpr (which == 0) return params.bias_address;
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    float t2[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      t2[rank] = load_value<float>(params.dweight_address, row * params.dweight_stride + rank) * params.scale_number;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.t2[rank] = t2[rank];
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float s = sigmoid(v.input[0][j]);
    terms[0][j] = s + v.of_column[0][j];
    terms[1][j] = s;
    v.input[0][j] = s;  // kept for the outputs
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    int i[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      i[rank] = TopColumns<columns_chosen, 1>::column(partial.value, rank);
    float w[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      w[rank] = TopColumns<columns_chosen, 1>::template more<0>(partial.value, rank);
    Reductions<PlainSumOfColumns>::Value chosen_total = Reductions<PlainSumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{w[rank]}};
      Reductions<PlainSumOfColumns>::include(chosen_total, terms, {0, 1, rank});
    }
    const float total = PlainSumOfColumns::result(chosen_total.value);
    Reductions<PlainSumOfColumns>::Value chosen_d_total = Reductions<PlainSumOfColumns>::identity();
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank) {
      const float terms[1][1] = {{-divide((values.t2[rank] * divide(w[rank], total)), total)}};
      Reductions<PlainSumOfColumns>::include(chosen_d_total, terms, {0, 1, rank});
    }
    const float d_total = PlainSumOfColumns::result(chosen_d_total.value);
    float d_w[columns_chosen];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      d_w[rank] = divide(values.t2[rank], total) + d_total;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.i[rank] = i[rank];
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      values.d_w[rank] = d_w[rank];
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    float d_s = 0.0f;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      d_s = values.i[rank] == static_cast<int>(v.column) + j ? d_s + values.d_w[rank] : d_s;
    const float s = sigmoid(v.input[0][j]);
    results[0][j] = d_s * (s * (1.0f - s));  // dx
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs_of_kept(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[1][vector]) {
    const float s = v.input[0][j];
    float d_s = 0.0f;
#pragma unroll
    for (int rank = 0; rank < columns_chosen; ++rank)
      d_s = values.i[rank] == static_cast<int>(v.column) + j ? d_s + values.d_w[rank] : d_s;
    results[0][j] = d_s * (s * (1.0f - s));  // dx
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .bias_address = {}, .dweight_address = {}, .dweight_stride = {}, .dx_address = {}, .dx_stride = {}, .scale_number = {}}) == 208, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::bias_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dweight_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dweight_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dx_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::scale_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
