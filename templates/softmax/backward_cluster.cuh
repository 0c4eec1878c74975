// softmax/backward_resident.cuh for the blocks of a cluster.
#pragma once

#include "device/group_of_cluster.cuh"
#include "softmax/backward_resident.cuh"
