#pragma once
// The engine and all operations. Each operation has a header of its own as well, such as tunesmith/rms_norm.h.

#include "tunesmith/engine.h"
#include "tunesmith/kv_append.h"
#include "tunesmith/linear_cross_entropy.h"
#include "tunesmith/merge_attention_parts.h"
#include "tunesmith/rms_norm.h"
#include "tunesmith/row_program.h"
#include "tunesmith/version.h"
