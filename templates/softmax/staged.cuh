// softmax/resident.cuh for rows that pass through shared memory.
#pragma once

#include "row/staged.cuh"
#include "softmax/resident.cuh"
