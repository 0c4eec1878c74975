#pragma once
// Everything a C++ program needs.

#include "tunesmith/engine.h"
#include "tunesmith/linear_cross_entropy.h"
#include "tunesmith/version.h"
