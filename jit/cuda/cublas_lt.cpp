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

/// cuBLASLt is column-major and reads a row-major array as its transpose. So c = A B is computed as c^T = B^T A^T, with the
/// operands swapped.
class CublasLtMatmul final : public PreparedMatmul {
 public:
  CublasLtMatmul(const CudaDevice& device, const CublasLtLibrary& library, cublas_lt::Handle handle,
                 const MatmulProblem& problem, std::size_t workspace_bytes)
      : device_(device),
        library_(library),
        handle_(handle),
        doing_("multiplying " + problem.text()),
        has_bias_(problem.bias),
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
    set(DescriptionAttribute::pointer_mode, cublas_lt::PointerMode::device);
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
    choose(problem, workspace_bytes);
  }

  void enqueue(const MatmulArrays& arrays, Stream stream) const override {
    const ContextScope scope(device_);
    std::unique_lock<std::mutex> lock;
    if (has_bias_) {
      // The address of the bias is part of the description, which cuBLASLt reads before matmul() returns.
      lock = std::unique_lock(description_in_use_);
      set(DescriptionAttribute::bias, arrays.bias);
    }
    check(library_->matmul(handle_, description_.get(), arrays.alpha, arrays.b, first_.get(), arrays.a, second_.get(),
                           arrays.beta, arrays.c, result_.get(), arrays.c, result_.get(), &chosen_.algorithm,
                           arrays.workspace, chosen_.workspace_bytes, static_cast<cuda::StreamHandle>(stream)),
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

  void choose(const MatmulProblem& problem, std::size_t workspace_bytes) {
    Owned<cublas_lt::Preference> preference(library_->preference_destroy);
    check(library_->preference_create(preference.address()), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](PreferenceAttribute attribute, auto value) {
      check(library_->preference_set(preference.get(), attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(PreferenceAttribute::max_workspace_bytes, std::uint64_t{workspace_bytes});
    prefer(PreferenceAttribute::reduction_scheme_mask, cublas_lt::reduction_in_compute_type);
    prefer(PreferenceAttribute::min_alignment_a_bytes, static_cast<std::uint32_t>(problem.b_alignment));
    prefer(PreferenceAttribute::min_alignment_b_bytes, static_cast<std::uint32_t>(problem.a_alignment));
    prefer(PreferenceAttribute::min_alignment_c_bytes, static_cast<std::uint32_t>(problem.c_alignment));
    prefer(PreferenceAttribute::min_alignment_d_bytes, static_cast<std::uint32_t>(problem.c_alignment));
    int count = 0;
    check(library_->get_heuristic(handle_, description_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
                                  preference.get(), 1, &chosen_, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count < 1) check(cublas_lt::not_supported, "cublasLtMatmulAlgoGetHeuristic");
    check(chosen_.state, "cublasLtMatmulAlgoGetHeuristic");
  }

  const CudaDevice& device_;
  const CublasLtLibrary& library_;
  const cublas_lt::Handle handle_;
  const std::string doing_;
  const bool has_bias_;
  mutable std::mutex description_in_use_;
  Owned<cublas_lt::MatmulDescription> description_;
  Owned<cublas_lt::MatrixLayout> first_, second_, result_;
  cublas_lt::HeuristicResult chosen_ = {};
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

std::unique_ptr<PreparedMatmul> CublasLt::prepare(const MatmulProblem& problem) {
  const ContextScope scope(*device_);
  return std::make_unique<CublasLtMatmul>(*device_, *library_, handle_, problem, workspace_bytes());
}

}  // namespace tunesmith
