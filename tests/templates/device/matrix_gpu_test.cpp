// The tensor-core primitives on a GPU: the fragment layouts agree with the host executor and device/matrix.cuh.
#include "jit/cuda/device.h"
#include "tests/jit/cuda/nvrtc_fixture.h"
#include "tests/templates/device/matrix_kernels.h"

namespace tunesmith {
namespace {

TEST(MatrixGpu, Products) {
  try {
    CudaDevice device(0);
    const NvrtcCompiler compiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}});
    test::check_matrix_kernels(compiler, device, device.info().arch);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::no_device || error.code() == ErrorCode::no_compiler) GTEST_SKIP() << error.what();
    throw;
  }
}

}  // namespace
}  // namespace tunesmith
