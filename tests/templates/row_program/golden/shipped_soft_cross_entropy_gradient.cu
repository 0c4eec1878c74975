/// The kernels' only argument.
struct RowProgramParams {
  RowParams row;
  const void* probabilities_address;
  int64 probabilities_stride;
  const void* dloss_address;
  const void* dlse_out_address;
  void* dlogits_address;
  int64 dlogits_stride;
  void* dprobabilities_address;
  int64 dprobabilities_stride;
  float label_smoothing_number;
};

/// The program: each of its lines is a line of these functions.
struct Program {
  using Params = RowProgramParams;
  using First = bf16;
  using Inputs = TypeList<bf16, bf16>;
  using Outputs = TypeList<bf16, bf16>;
  using ColumnArrays = ColumnList<>;
  static constexpr int stages = 2;
  static constexpr int kept = 0;
  static constexpr int uniform_calls = 0;
  static constexpr int sums = 0;
  static constexpr int columns_of_group = 1;
  template <int stage>
  using RowReductions = typename TypeAt<stage - 1, Reductions<MaximumOfColumns, PlainSumOfColumns>, Reductions<PlainSumOfColumns>>::type;
  template <int stage>
  using GroupReductions = Reductions<>;
  struct Values {
    float dloss;
    float dlse_out;
    float v5;
    bool v11;
    float l;
    float t1;
    float v20;
    float d_l;
  };
  struct Groups {};

  template <int pass>
  static __device__ __forceinline__ constexpr PassUses uses() {
    if constexpr (pass == 1) return {.inputs = 3, .columns = 0, .groups = 0};
    if constexpr (pass == 2) return {.inputs = 1, .columns = 0, .groups = 0};
    return {.inputs = 3, .columns = 0, .groups = 0};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray input(const Params& params) {
    if constexpr (which == 0) return {params.row.input[0], params.row.input_stride[0]};
    if constexpr (which == 1) return {params.probabilities_address, params.probabilities_stride};
  }
  template <int which>
  static __device__ __forceinline__ RowsOfArray output(const Params& params) {
    if constexpr (which == 0) return {params.dlogits_address, params.dlogits_stride};
    if constexpr (which == 1) return {params.dprobabilities_address, params.dprobabilities_stride};
  }

  static __device__ __forceinline__ void derive(OfStage<0>, const Params& params, int64 row, Values& values) {
    const float t1 = 1.0f - params.label_smoothing_number;
    values.dloss = load_value<float>(params.dloss_address, row);
    values.dlse_out = load_value<float>(params.dlse_out_address, row);
    values.t1 = t1;
    values.v20 = divide(params.label_smoothing_number, static_cast<float>(params.row.cols));
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<1>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    const float q = (v.input[1][j] * values.t1) + values.v20;
    terms[0][j] = v.input[0][j];
    terms[1][j] = q;
  }
  static __device__ __forceinline__ void derive(OfStage<1>, const Params& params, int64 row, const RowReductions<1>::Value& partial,
      Values& values) {
    const float v5 = MaximumOfColumns::result(partial.value);
    const float t2 = PlainSumOfColumns::result(partial.value + 1);
    const float d_l = values.dlse_out + (values.dloss * t2);
    values.v5 = v5;
    values.v11 = (v5 - v5) == 0.0f;
    values.d_l = d_l;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void terms(OfStage<2>, const Params& params, const Values& values, const Groups& groups,
      Vector& v, int j, float (*terms)[vector]) {
    terms[0][j] = exponential_of_rounded((v.input[0][j] - values.v5));
  }
  static __device__ __forceinline__ void derive(OfStage<2>, const Params& params, int64 row, const RowReductions<2>::Value& partial,
      Values& values) {
    const float l = values.v11 ? (values.v5 + logarithm(PlainSumOfColumns::result(partial.value))) : values.v5;
    values.l = l;
  }
  template <typename Vector, int vector>
  static __device__ __forceinline__ void outputs(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,
      float (&results)[2][vector]) {
    const float logits = v.input[0][j];
    const float q = (v.input[1][j] * values.t1) + values.v20;
    const float d_q = values.dloss * (values.l - logits);
    results[0][j] = (values.d_l * exponential_of_rounded((logits - values.l))) - (values.dloss * q);  // dlogits
    results[1][j] = d_q * values.t1;  // dprobabilities
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
static_assert(sizeof(tunesmith::RowProgramParams{.row = {}, .probabilities_address = {}, .probabilities_stride = {}, .dloss_address = {}, .dlse_out_address = {}, .dlogits_address = {}, .dlogits_stride = {}, .dprobabilities_address = {}, .dprobabilities_stride = {}, .label_smoothing_number = {}}) == 232, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::probabilities_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::probabilities_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dloss_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dlse_out_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dlogits_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dlogits_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dprobabilities_address) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::dprobabilities_stride) == 8, "the host fills the parameters by this layout");
static_assert(sizeof(tunesmith::RowProgramParams::label_smoothing_number) == 4, "the host fills the parameters by this layout");

extern "C" __global__ void __launch_bounds__(256, 1)
row_program(const __grid_constant__ tunesmith::RowProgramParams params) {
  tunesmith::row_program_resident<tunesmith::Program, shape, config, Group, Storage>(params);
}
