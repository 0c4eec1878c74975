#pragma once
// The version when c_api.h in this folder was the library's header.

#define TUNESMITH_VERSION "0.1.0"
#define TUNESMITH_VERSION_MAJOR 0
#define TUNESMITH_VERSION_MINOR 1
