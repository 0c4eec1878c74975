// softmax/resident.cuh for elements of double.
#pragma once

#include "device/double_exponential.cuh"
#include "row/double.cuh"
#include "softmax/resident.cuh"
