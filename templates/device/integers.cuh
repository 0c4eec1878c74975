// Integers of fixed sizes. NVRTC has no <cstdint>.
#pragma once

namespace tunesmith {

using uint16 = unsigned short;
using uint32 = unsigned int;
using int64 = long long;
using uint64 = unsigned long long;

}  // namespace tunesmith
