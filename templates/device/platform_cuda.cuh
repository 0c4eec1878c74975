// The platform for CUDA: thin wrappers over PTX, so that kernels need no CUDA header. jit/host/tunesmith_platform_host.h has
// the same names for the host executor; change both together.
#pragma once

#include "device/arithmetic_cuda.cuh"
#include "device/memory_cuda.cuh"
#include "device/threads_cuda.cuh"
