// All hardware access, under the same names on the GPU and in the host executor.
#pragma once

#include "device/types.cuh"

#ifdef TUNESMITH_HOST_EXECUTOR
#include <tunesmith_platform_host.h>  // Bits LoadHint StoreHint f16 bf16 int64 uint16 uint32 uint64
#else
#include "device/platform_cuda.cuh"
#endif
