#pragma once
// The version of the library. CMake reads it from here.

#define TUNESMITH_VERSION "0.2.0"
#define TUNESMITH_VERSION_MAJOR 0
#define TUNESMITH_VERSION_MINOR 2
