#pragma once
// The subset of NVRTC's interface that Tunesmith uses, declared from its public documentation so that building needs no CUDA
// header. A test compares the values with <nvrtc.h> if that is installed.

#include <cstddef>

namespace tunesmith::nvrtc {

using Result = int;  ///< nvrtcResult
using Program = struct ProgramTag*;

inline constexpr Result success = 0;
inline constexpr Result out_of_memory = 1;
inline constexpr Result builtin_operation_failure = 7;

/// The functions that are called; version 12.0 and later have all of them.
struct Functions {
  const char* (*get_error_string)(Result);
  Result (*version)(int* major, int* minor);
  Result (*get_num_supported_archs)(int* count);
  Result (*get_supported_archs)(int* archs);
  Result (*create_program)(Program*, const char* source, const char* name, int header_count, const char* const* headers,
                           const char* const* include_names);
  Result (*destroy_program)(Program*);
  Result (*compile_program)(Program, int option_count, const char* const* options);
  Result (*get_program_log_size)(Program, std::size_t*);
  Result (*get_program_log)(Program, char*);
  Result (*get_cubin_size)(Program, std::size_t*);
  Result (*get_cubin)(Program, char*);
  Result (*get_ptx_size)(Program, std::size_t*);
  Result (*get_ptx)(Program, char*);
};

}  // namespace tunesmith::nvrtc
