// softmax/strided.cuh for elements of double.
#pragma once

#include "device/double_exponential.cuh"
#include "row/double.cuh"
#include "softmax/strided.cuh"
