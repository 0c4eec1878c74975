// row_program/sums_resident.cuh for programs with sums over all rows and columns.
#pragma once

#include "row_program/sums_resident.cuh"
#include "row_program/totals.cuh"
