// cross_entropy/tiled.cuh for elements of double. Its functions find only overloads that are declared before them.
#pragma once

#include "cross_entropy/arithmetic_f64.cuh"
#include "cross_entropy/shard_f64.cuh"
#include "cross_entropy/tiled.cuh"
