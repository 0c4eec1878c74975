// cross_entropy/resident.cuh for rows that pass through shared memory.
#pragma once

#include "cross_entropy/resident.cuh"
#include "row/staged.cuh"
