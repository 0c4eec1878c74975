// row_program/resident.cuh for rows that pass through shared memory.
#pragma once

#include "row/staged.cuh"
#include "row_program/resident.cuh"
