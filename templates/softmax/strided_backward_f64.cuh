// softmax/strided_backward.cuh for elements of double.
#pragma once

#include "device/double_exponential.cuh"
#include "row/double.cuh"
#include "softmax/strided_backward.cuh"
