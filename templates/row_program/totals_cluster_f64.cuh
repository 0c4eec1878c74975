// row_program/totals_resident_f64.cuh for the blocks of a cluster.
#pragma once

#include "device/double.cuh"
#include "device/group_of_cluster.cuh"
#include "row_program/totals_resident_f64.cuh"
