// cross_entropy/resident.cuh for the blocks of a cluster.
#pragma once

// clang-format off: the file with the kernel is the last one
#include "cross_entropy/resident.cuh"
#include "device/group_of_cluster.cuh"
