#pragma once
// Everything a C++ program needs.

#include "tunesmith/engine.h"
#include "tunesmith/version.h"
