// rms_norm/resident.cuh for elements of double.
#pragma once

#include "device/double.cuh"
#include "rms_norm/resident.cuh"
#include "row/double.cuh"
