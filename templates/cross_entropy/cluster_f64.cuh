// cross_entropy/resident_f64.cuh for the blocks of a cluster.
#pragma once

// clang-format off: overloads for double come first, the file with the kernel is the last one
#include "cross_entropy/resident_f64.cuh"
#include "device/double.cuh"
#include "device/group_of_cluster.cuh"
