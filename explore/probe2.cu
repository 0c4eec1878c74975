#include "apart.cuh"
using namespace tunesmith;
#include "/tmp/probe_cfg.h"
constexpr Config cfg = {CFG};
template __global__ void tunesmith::fused_apart<cfg>(const __grid_constant__ Params);
