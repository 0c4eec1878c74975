// rms_norm/tiled.cuh for elements of double.
#pragma once

#include "device/double.cuh"
#include "rms_norm/tiled.cuh"
#include "row/double.cuh"
