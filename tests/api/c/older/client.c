/* A client of an older version: compiled against older/tunesmith/c_api.h, linked with today's library (docs/versions.md). It
 * uses every struct, and the numbers of enumerations, as its header declares them: a softmax on the host executor by order
 * and by name, and the message of an error. Prints "the older client works". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tunesmith/c_api.h"

enum { rows = 3, cols = 40 };

#define CHECK(condition)                                                                               \
  do {                                                                                                 \
    if (!(condition)) {                                                                                \
      fprintf(stderr, "line %d: not true: %s (%s)\n", __LINE__, #condition, tunesmith_last_error());   \
      exit(1);                                                                                         \
    }                                                                                                  \
  } while (0)

static void count_line(tunesmith_log_level level, const char* line, void* count) {
  CHECK(level == TUNESMITH_LOG_INFO || level == TUNESMITH_LOG_WARNING);
  CHECK(strlen(line) > 0);
  ++*(int*)count;
}

static tunesmith_engine* make_engine(int* lines) {
  tunesmith_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.device = "host";
  options.mode = "off";
  options.cache_file = "";
  options.log = count_line;
  options.log_context = lines;
  tunesmith_engine* engine = NULL;
  CHECK(tunesmith_engine_create(&options, &engine) == TUNESMITH_OK);
  CHECK(tunesmith_engine_is_host(engine) == 1);
  return engine;
}

static tunesmith_problem* make_problem(void) {
  tunesmith_problem* problem = NULL;
  CHECK(tunesmith_problem_create("softmax", &problem) == TUNESMITH_OK);
  CHECK(tunesmith_problem_set_int(problem, "rows", rows) == TUNESMITH_OK);
  CHECK(tunesmith_problem_set_int(problem, "cols", cols) == TUNESMITH_OK);
  CHECK(tunesmith_problem_set_real(problem, "scale", 0.5) == TUNESMITH_OK);
  CHECK(tunesmith_problem_set_string(problem, "dtype", "f32") == TUNESMITH_OK);
  const tunesmith_array* arrays = NULL;
  size_t count = 0;
  CHECK(tunesmith_problem_arrays(problem, &arrays, &count) == TUNESMITH_OK);
  CHECK(count == 2);
  CHECK(strcmp(arrays[0].name, "x") == 0 && arrays[0].role == TUNESMITH_INPUT && arrays[0].dtype == TUNESMITH_F32);
  CHECK(strcmp(arrays[1].name, "y") == 0 && arrays[1].role == TUNESMITH_OUTPUT);
  for (size_t i = 0; i < count; ++i) {
    CHECK(arrays[i].rank == 2 && arrays[i].shape[0] == rows && arrays[i].shape[1] == cols && arrays[i].strides[1] == 1);
    CHECK(arrays[i].bytes == (int64_t)(rows * cols * sizeof(float)) && arrays[i].alignment > 0 && !arrays[i].optional);
    CHECK(arrays[i].in_place_of[0] == 0 && arrays[i].meaning != NULL);
  }
  return problem;
}

/* Rows sum to 1; the largest element is where the largest input is. */
static void check_rows(const float* y) {
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int col = 0; col < cols; ++col) sum += y[row * cols + col];
    CHECK(fabs(sum - 1) < cols * 6e-8); /* each element is rounded to half an ULP, and all are below 1 */
    CHECK(y[row * cols + cols - 1] > y[row * cols]);
  }
}

int main(void) {
  CHECK(strlen(tunesmith_version()) > 0);
  CHECK(strcmp(tunesmith_status_name(TUNESMITH_CACHE_FAILED), "cache_failed") == 0);
  int lines = 0;
  tunesmith_engine* const engine = make_engine(&lines);
  tunesmith_problem* const problem = make_problem();
  float x[rows * cols], y[rows * cols];
  for (int i = 0; i < rows * cols; ++i) x[i] = 0.1f * (float)(i % cols);
  void *device_x = NULL, *device_y = NULL;
  CHECK(tunesmith_allocate(engine, sizeof x, &device_x) == TUNESMITH_OK);
  CHECK(tunesmith_allocate(engine, sizeof y, &device_y) == TUNESMITH_OK);
  CHECK(tunesmith_copy_to_device(engine, device_x, x, sizeof x) == TUNESMITH_OK);

  tunesmith_plan* plan = NULL;
  CHECK(tunesmith_prepare(engine, problem, NULL, TUNESMITH_MODE_REPLAY, &plan) == TUNESMITH_OK);
  CHECK(lines > 0);
  CHECK(strlen(tunesmith_plan_config(plan)) > 0 && strlen(tunesmith_plan_source(plan)) > 0);
  CHECK(tunesmith_plan_bytes(plan) == 2.0 * sizeof x);
  void* const in_order[2] = {device_x, device_y};
  CHECK(tunesmith_plan_launch(plan, in_order, 2, NULL) == TUNESMITH_OK);
  CHECK(tunesmith_synchronize(engine, NULL) == TUNESMITH_OK);
  CHECK(tunesmith_copy_to_host(engine, y, device_y, sizeof y) == TUNESMITH_OK);
  check_rows(y);

  const char* const names[2] = {"y", "x"};
  void* const by_name[2] = {device_y, device_x};
  memset(y, 0, sizeof y);
  CHECK(tunesmith_copy_to_device(engine, device_y, y, sizeof y) == TUNESMITH_OK);
  CHECK(tunesmith_plan_launch_named(plan, names, by_name, 2, NULL) == TUNESMITH_OK);
  CHECK(tunesmith_copy_to_host(engine, y, device_y, sizeof y) == TUNESMITH_OK);
  check_rows(y);
  CHECK(tunesmith_run(engine, problem, in_order, 2, NULL) == TUNESMITH_OK);

  const char* text = NULL;
  CHECK(tunesmith_problem_text(problem, &text) == TUNESMITH_OK);
  CHECK(strncmp(text, "softmax rows=3,cols=40,", 23) == 0);
  CHECK(tunesmith_problem_set_int(problem, "rows", -3) == TUNESMITH_OK);
  CHECK(tunesmith_problem_text(problem, &text) == TUNESMITH_INVALID_ARGUMENT);
  CHECK(strstr(tunesmith_last_error(), "rows is -3") != NULL);

  CHECK(tunesmith_release(engine, device_x) == TUNESMITH_OK);
  CHECK(tunesmith_release(engine, device_y) == TUNESMITH_OK);
  tunesmith_plan_destroy(plan);
  tunesmith_problem_destroy(problem);
  tunesmith_engine_destroy(engine);
  puts("the older client works");
  return 0;
}
