// row_program/totals_resident.cuh for programs that compute in double.
#pragma once

#include "row_program/double.cuh"
#include "row_program/totals_resident.cuh"
