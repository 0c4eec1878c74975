// rms_norm/resident.cuh for rows that pass through shared memory.
#pragma once

#include "rms_norm/resident.cuh"
#include "row/staged.cuh"
