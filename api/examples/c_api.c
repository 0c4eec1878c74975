/* Softmax of a matrix through the C API: the plan tells its arrays. Runs on the first GPU, or else on the CPU with the host
 * executor. */

#include "tunesmith/c_api.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                     \
  do {                                                                                                                  \
    const tunesmith_status status = (call);                                                                             \
    if (status != TUNESMITH_OK) {                                                                                       \
      fprintf(stderr, "%s: %s\n%s", tunesmith_status_name(status), tunesmith_last_error(), tunesmith_last_error_log()); \
      return EXIT_FAILURE;                                                                                              \
    }                                                                                                                   \
  } while (0)

enum { rows = 16, cols = 1000 };

int main(void) {
  static float x[rows * cols], y[rows * cols];
  for (int i = 0; i < rows * cols; ++i) x[i] = (float)(i * 7919 % 1009) / 100.0f;

  tunesmith_engine* engine = NULL;
  tunesmith_problem* problem = NULL;
  tunesmith_plan* plan = NULL;
  CHECK(tunesmith_engine_create(NULL, &engine)); /* reads device, mode and cache from the environment */
  CHECK(tunesmith_problem_create("softmax", &problem));
  CHECK(tunesmith_problem_set_int(problem, "rows", rows));
  CHECK(tunesmith_problem_set_int(problem, "cols", cols));
  CHECK(tunesmith_problem_set_string(problem, "dtype", "f32"));
  CHECK(tunesmith_prepare(engine, problem, NULL, TUNESMITH_MODE_OF_ENGINE, &plan));

  size_t count = 0;
  const tunesmith_array* arrays = tunesmith_plan_arrays(plan, &count); /* x, y */
  void* addresses[2] = {NULL, NULL};
  for (size_t i = 0; i < count && i < 2; ++i) CHECK(tunesmith_allocate(engine, (size_t)arrays[i].bytes, &addresses[i]));
  CHECK(tunesmith_copy_to_device(engine, addresses[0], x, sizeof x));
  CHECK(tunesmith_plan_launch(plan, addresses, count, NULL));
  CHECK(tunesmith_synchronize(engine, NULL));
  CHECK(tunesmith_copy_to_host(engine, y, addresses[1], sizeof y));

  double sum = 0;
  for (int c = 0; c < cols; ++c) sum += y[c];
  printf("tunesmith %s, %s on %s: %s (%s), first row sums to %.6f\n", tunesmith_version(), tunesmith_plan_problem(plan),
         tunesmith_engine_device(engine), tunesmith_plan_config(plan), tunesmith_plan_origin(plan), sum);

  for (size_t i = 0; i < 2; ++i) CHECK(tunesmith_release(engine, addresses[i]));
  tunesmith_plan_destroy(plan);
  tunesmith_problem_destroy(problem);
  tunesmith_engine_destroy(engine);
  return sum > 0.999 && sum < 1.001 ? EXIT_SUCCESS : EXIT_FAILURE;
}
