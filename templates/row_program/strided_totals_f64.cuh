// row_program/strided_totals.cuh for programs that compute in double.
#pragma once

#include "row_program/double.cuh"
#include "row_program/strided_totals.cuh"
