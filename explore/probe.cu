#include "fused.cuh"
using namespace tunesmith;
#include "/tmp/probe_cfg.h"
constexpr Config cfg = {CFG};
template __global__ void tunesmith::fused<cfg>(const __grid_constant__ Params);
