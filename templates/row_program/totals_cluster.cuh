// row_program/totals_resident.cuh for the blocks of a cluster.
#pragma once

#include "device/group_of_cluster.cuh"
#include "row_program/totals_resident.cuh"
