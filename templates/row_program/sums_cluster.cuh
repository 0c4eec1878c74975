// row_program/sums_resident.cuh for clusters of blocks that share a row.
#pragma once

#include "row_program/program_group.cuh"
#include "row_program/sums_resident.cuh"
