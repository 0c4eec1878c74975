#include "jit/cuda/cublas_lt.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include "jit/cuda/context_scope.h"

namespace tunesmith {
namespace {

using cublas_lt::DescriptionAttribute;
using cublas_lt::PreferenceAttribute;

cublas_lt::DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return cublas_lt::DataType::f32;
    case DType::f16: return cublas_lt::DataType::f16;
    case DType::bf16: return cublas_lt::DataType::bf16;
    default: break;
  }
  throw Error(ErrorCode::invalid_argument, "dtype of a matrix product is ", name(dtype), "; allowed: f32, f16, bf16");
}

/// Owns a cuBLASLt object and destroys it.
template <typename Object>
class Owned {
 public:
  using Destroy = cublas_lt::Status (*)(Object);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (object_ != nullptr) destroy_(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Object* address() noexcept { return &object_; }
  Object get() const noexcept { return object_; }

 private:
  const Destroy destroy_;
  Object object_ = nullptr;
};

/// The description of a product, which its algorithms share. cuBLASLt is column-major and reads a row-major array as its
/// transpose. So c = A B is computed as c^T = B^T A^T, with the operands swapped.
class DescribedMatmul {
 public:
  DescribedMatmul(const CudaDevice& device, const CublasLtLibrary& library, cublas_lt::Handle handle,
                  const MatmulProblem& problem)
      : device_(device),
        library_(library),
        handle_(handle),
        doing_("multiplying " + problem.text()),
        problem_(problem),
        description_(library->description_destroy),
        first_(library->layout_destroy),
        second_(library->layout_destroy),
        result_(library->layout_destroy) {
    const cublas_lt::DataType type = data_type(problem.dtype);
    check(library_->description_create(description_.address(), cublas_lt::ComputeType::f32, cublas_lt::DataType::f32),
          "cublasLtMatmulDescCreate");
    const auto operation = [](bool transpose) {
      return transpose ? cublas_lt::Operation::transpose : cublas_lt::Operation::none;
    };
    set(DescriptionAttribute::pointer_mode, problem.factors ? cublas_lt::PointerMode::host : cublas_lt::PointerMode::device);
    set(DescriptionAttribute::transpose_a, operation(problem.transpose_b));
    set(DescriptionAttribute::transpose_b, operation(problem.transpose_a));
    lay_out(first_, type, problem.transpose_b ? problem.n : problem.k, problem.transpose_b ? problem.k : problem.n,
            problem.b_row_stride);
    lay_out(second_, type, problem.transpose_a ? problem.k : problem.m, problem.transpose_a ? problem.m : problem.k,
            problem.a_row_stride);
    lay_out(result_, data_type(problem.out_dtype), problem.m, problem.n, problem.c_row_stride);
    if (problem.bias) {
      set(DescriptionAttribute::epilogue, cublas_lt::Epilogue::bias);
      // The heuristic reads the alignment of the bias from its address.
      set(DescriptionAttribute::bias, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(problem.bias_alignment)));
    }
  }

  /// Returns at least one algorithm and at most `most`.
  std::vector<cublas_lt::HeuristicResult> algorithms(int most) const {
    Owned<cublas_lt::Preference> preference(library_->preference_destroy);
    check(library_->preference_create(preference.address()), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](PreferenceAttribute attribute, auto value) {
      check(library_->preference_set(preference.get(), attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(PreferenceAttribute::max_workspace_bytes, std::uint64_t{problem_.workspace_bytes});
    prefer(PreferenceAttribute::reduction_scheme_mask, cublas_lt::reduction_in_compute_type);
    prefer(PreferenceAttribute::min_alignment_a_bytes, static_cast<std::uint32_t>(problem_.b_alignment));
    prefer(PreferenceAttribute::min_alignment_b_bytes, static_cast<std::uint32_t>(problem_.a_alignment));
    prefer(PreferenceAttribute::min_alignment_c_bytes, static_cast<std::uint32_t>(problem_.c_alignment));
    prefer(PreferenceAttribute::min_alignment_d_bytes, static_cast<std::uint32_t>(problem_.c_alignment));
    std::vector<cublas_lt::HeuristicResult> found(static_cast<std::size_t>(std::max(most, 1)));
    int count = 0;
    check(library_->get_heuristic(handle_, description_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
                                  preference.get(), static_cast<int>(found.size()), found.data(), &count),
          "cublasLtMatmulAlgoGetHeuristic");
    found.resize(static_cast<std::size_t>(std::max(count, 0)));
    const cublas_lt::Status failure = found.empty() ? cublas_lt::not_supported : found.front().state;
    std::erase_if(found, [](const cublas_lt::HeuristicResult& result) { return result.state != cublas_lt::success; });
    if (found.empty()) check(failure, "cublasLtMatmulAlgoGetHeuristic");
    return found;
  }

  void enqueue(const cublas_lt::HeuristicResult& chosen, const MatmulArrays& arrays, Stream stream) const {
    const ContextScope scope(device_);
    std::unique_lock<std::mutex> lock;
    if (problem_.bias) {
      // The address of the bias is part of the description, which cuBLASLt reads before matmul() returns.
      lock = std::unique_lock(description_in_use_);
      set(DescriptionAttribute::bias, arrays.bias);
    }
    const float* const alpha = problem_.factors ? &problem_.factors->alpha : arrays.alpha;
    const float* const beta = problem_.factors ? &problem_.factors->beta : arrays.beta;
    check(library_->matmul(handle_, description_.get(), alpha, arrays.b, first_.get(), arrays.a, second_.get(), beta,
                           arrays.c, result_.get(), arrays.c, result_.get(), &chosen.algorithm, arrays.workspace,
                           chosen.workspace_bytes, static_cast<cuda::StreamHandle>(stream)),
          "cublasLtMatmul");
  }

 private:
  void check(cublas_lt::Status status, const char* call) const {
    if (status != cublas_lt::success) [[unlikely]]
      library_.check(status, call, doing_);
  }

  template <typename Value>
  void set(DescriptionAttribute attribute, Value value) const {
    check(library_->description_set(description_.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }

  /// Describes a row-major array of `rows` x `cols`.
  void lay_out(Owned<cublas_lt::MatrixLayout>& layout, cublas_lt::DataType type, std::int64_t rows, std::int64_t cols,
               std::int64_t row_stride) {
    check(library_->layout_create(layout.address(), type, static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows),
                                  row_stride),
          "cublasLtMatrixLayoutCreate");
  }

  const CudaDevice& device_;
  const CublasLtLibrary& library_;
  const cublas_lt::Handle handle_;
  const std::string doing_;
  const MatmulProblem problem_;
  mutable std::mutex description_in_use_;
  Owned<cublas_lt::MatmulDescription> description_;
  Owned<cublas_lt::MatrixLayout> first_, second_, result_;
};

class CublasLtMatmul final : public PreparedMatmul {
 public:
  CublasLtMatmul(std::shared_ptr<const DescribedMatmul> described, const cublas_lt::HeuristicResult& chosen)
      : described_(std::move(described)), chosen_(chosen) {}
  void enqueue(const MatmulArrays& arrays, Stream stream) const override { described_->enqueue(chosen_, arrays, stream); }

 private:
  const std::shared_ptr<const DescribedMatmul> described_;
  const cublas_lt::HeuristicResult chosen_;
};

}  // namespace

CublasLt::CublasLt(std::shared_ptr<const CudaDevice> device, std::shared_ptr<const CublasLtLibrary> library)
    : device_(std::move(device)), library_(std::move(library)) {
  const ContextScope scope(*device_);
  const RelaxedCapture relaxed(device_->driver());
  library_->check((*library_)->create(&handle_), "cublasLtCreate", "opening cuBLASLt on " + device_->info().name);
}

CublasLt::~CublasLt() try {
  const ContextScope scope(*device_);
  (*library_)->destroy(handle_);
} catch (...) {
  // The context no longer exists, so the handle does not either.
}

std::vector<std::unique_ptr<PreparedMatmul>> CublasLt::prepare(const MatmulProblem& problem, int most) {
  const ContextScope scope(*device_);
  const auto described = std::make_shared<const DescribedMatmul>(*device_, *library_, handle_, problem);
  std::vector<std::unique_ptr<PreparedMatmul>> products;
  for (const cublas_lt::HeuristicResult& chosen : described->algorithms(most))
    products.push_back(std::make_unique<CublasLtMatmul>(described, chosen));
  return products;
}

}  // namespace tunesmith
