#ifndef TUNESMITH_TESTS_GENERIC_CLIENT_H
#define TUNESMITH_TESTS_GENERIC_CLIENT_H
/* A client of the C API that knows names only, as a binding does. */

#include "tunesmith/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads or writes a problem's arrays in host memory. */
typedef void (*generic_visit)(void* context, const tunesmith_array* arrays, void* const* memory, size_t count);

/* Runs a problem such as ("softmax", "rows=3,cols=40") twice, by name and in one shot. Before each run `fill` writes the
 * inputs; after it `check` reads all arrays, inputs as they were. Returns the first status that is not TUNESMITH_OK. */
tunesmith_status generic_run(tunesmith_engine* engine, const char* op, const char* fields, generic_visit fill,
                             generic_visit check, void* context);

#ifdef __cplusplus
}
#endif

#endif /* TUNESMITH_TESTS_GENERIC_CLIENT_H */
