// softmax/backward_resident.cuh for rows that pass through shared memory.
#pragma once

#include "row/staged.cuh"
#include "softmax/backward_resident.cuh"
