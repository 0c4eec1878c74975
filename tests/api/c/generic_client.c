#include "tests/api/c/generic_client.h"

#include <stdlib.h>
#include <string.h>

enum { max_arrays = 24, max_text = 512 };

#define TRY(call)                              \
  do {                                         \
    const tunesmith_status status = (call);    \
    if (status != TUNESMITH_OK) return status; \
  } while (0)

/* The arrays of a problem: a copy in host memory for each, and its memory on the device. */
struct memory {
  size_t count;
  void* host[max_arrays];
  void* device[max_arrays];
};

static tunesmith_status set_field(tunesmith_problem* problem, const char* name, const char* value) {
  char* end = NULL;
  const long long integer = strtoll(value, &end, 10);
  if (*value != 0 && *end == 0) return tunesmith_problem_set_int(problem, name, integer);
  const double real = strtod(value, &end);
  if (*value != 0 && *end == 0) return tunesmith_problem_set_real(problem, name, real);
  return tunesmith_problem_set_string(problem, name, value);
}

/* Replaces "%2C" and other escapes of two hex digits. */
static void unescape(char* text) {
  char* to = text;
  for (const char* from = text; *from != 0; ++from) {
    if (*from == '%' && from[1] != 0 && from[2] != 0) {
      const char digits[3] = {from[1], from[2], 0};
      *to++ = (char)strtol(digits, NULL, 16);
      from += 2;
    } else {
      *to++ = *from;
    }
  }
  *to = 0;
}

static tunesmith_status set_fields(tunesmith_problem* problem, const char* fields) {
  char text[max_text];
  strncpy(text, fields, sizeof text - 1);
  text[sizeof text - 1] = 0;
  for (char* field = strtok(text, ","); field != NULL; field = strtok(NULL, ",")) {
    char* const equals = strchr(field, '=');
    if (equals == NULL) return TUNESMITH_INTERNAL;
    *equals = 0;
    unescape(equals + 1);
    TRY(set_field(problem, field, equals + 1));
  }
  return TUNESMITH_OK;
}

static tunesmith_status allocate(tunesmith_engine* engine, const tunesmith_array* arrays, struct memory* memory) {
  for (size_t i = 0; i < memory->count; ++i) {
    const size_t bytes = (size_t)arrays[i].bytes;
    memory->host[i] = calloc(bytes + 1, 1);
    if (memory->host[i] == NULL) return TUNESMITH_OUT_OF_MEMORY;
    if (*arrays[i].in_place_of == 0) TRY(tunesmith_allocate(engine, bytes, &memory->device[i]));
  }
  for (size_t i = 0; i < memory->count; ++i)
    for (size_t j = 0; j < memory->count; ++j)
      if (strcmp(arrays[i].in_place_of, arrays[j].name) == 0) memory->device[i] = memory->device[j];
  return TUNESMITH_OK;
}

static void release(tunesmith_engine* engine, const tunesmith_array* arrays, const struct memory* memory) {
  for (size_t i = 0; i < memory->count; ++i) {
    free(memory->host[i]);
    if (*arrays[i].in_place_of == 0) tunesmith_release(engine, memory->device[i]);
  }
}

/* Fills the inputs and poisons the outputs. */
static tunesmith_status upload(tunesmith_engine* engine, const tunesmith_array* arrays, const struct memory* memory,
                               generic_visit fill, void* context) {
  for (size_t i = 0; i < memory->count; ++i) memset(memory->host[i], 0xee, (size_t)arrays[i].bytes);
  fill(context, arrays, memory->host, memory->count);
  for (size_t i = 0; i < memory->count; ++i)
    if (*arrays[i].in_place_of == 0)
      TRY(tunesmith_copy_to_device(engine, memory->device[i], memory->host[i], (size_t)arrays[i].bytes));
  return TUNESMITH_OK;
}

static tunesmith_status download(tunesmith_engine* engine, const tunesmith_array* arrays, const struct memory* memory,
                                 generic_visit check, void* context) {
  TRY(tunesmith_synchronize(engine, NULL));
  for (size_t i = 0; i < memory->count; ++i)
    if (arrays[i].role != TUNESMITH_INPUT)
      TRY(tunesmith_copy_to_host(engine, memory->host[i], memory->device[i], (size_t)arrays[i].bytes));
  check(context, arrays, memory->host, memory->count);
  return TUNESMITH_OK;
}

static tunesmith_status launch_both_ways(tunesmith_engine* engine, const tunesmith_problem* problem,
                                         const tunesmith_plan* plan, const struct memory* memory, generic_visit fill,
                                         generic_visit check, void* context) {
  size_t count = 0;
  const tunesmith_array* const arrays = tunesmith_plan_arrays(plan, &count);
  const char* names[max_arrays];
  void* reversed[max_arrays];
  for (size_t i = 0; i < count; ++i) {
    names[i] = arrays[count - 1 - i].name;
    reversed[i] = memory->device[count - 1 - i];
  }
  TRY(upload(engine, arrays, memory, fill, context));
  TRY(tunesmith_plan_launch_named(plan, names, reversed, count, NULL));
  TRY(download(engine, arrays, memory, check, context));
  TRY(upload(engine, arrays, memory, fill, context));
  TRY(tunesmith_run(engine, problem, memory->device, count, NULL));
  return download(engine, arrays, memory, check, context);
}

tunesmith_status generic_run(tunesmith_engine* engine, const char* op, const char* fields, generic_visit fill,
                             generic_visit check, void* context) {
  tunesmith_problem* problem = NULL;
  tunesmith_plan* plan = NULL;
  struct memory memory;
  memset(&memory, 0, sizeof memory);
  tunesmith_status status = tunesmith_problem_create(op, &problem);
  if (status == TUNESMITH_OK) status = set_fields(problem, fields);
  if (status == TUNESMITH_OK) status = tunesmith_prepare(engine, problem, NULL, TUNESMITH_MODE_OFF, &plan);
  const tunesmith_array* const arrays = tunesmith_plan_arrays(plan, &memory.count);
  if (memory.count > max_arrays) return TUNESMITH_INTERNAL;
  if (status == TUNESMITH_OK) status = allocate(engine, arrays, &memory);
  if (status == TUNESMITH_OK) status = launch_both_ways(engine, problem, plan, &memory, fill, check, context);
  release(engine, arrays, &memory);
  tunesmith_plan_destroy(plan);
  tunesmith_problem_destroy(problem);
  return status;
}
