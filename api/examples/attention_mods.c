/* Attention with a user-defined score_mod through the C API: compares ALiBi as a CUDA function with the option alibi. Runs
 * on the first GPU, or else on the CPU with the host executor. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tunesmith/c_api.h"

#define CHECK(call)                                                                                                     \
  do {                                                                                                                  \
    const tunesmith_status status = (call);                                                                             \
    if (status != TUNESMITH_OK) {                                                                                       \
      fprintf(stderr, "%s: %s\n%s", tunesmith_status_name(status), tunesmith_last_error(), tunesmith_last_error_log()); \
      return EXIT_FAILURE;                                                                                              \
    }                                                                                                                   \
  } while (0)

enum { heads = 4, queries = 100, keys = 120, head_dim = 32 };
enum { query_elements = queries * heads * head_dim, key_elements = keys * heads * head_dim };

/* The source declares slopes; the problem declares offset. */
static const char alibi[] =
    "// aux: slopes:f32[heads]\n"
    "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {\n"
    "  return score - aux.slopes[h] * fabsf(static_cast<float>(q + aux.offset - k));\n"
    "}\n";

static tunesmith_status upload(tunesmith_engine* engine, const float* values, size_t bytes, void** memory) {
  const tunesmith_status status = tunesmith_allocate(engine, bytes, memory);
  return status == TUNESMITH_OK ? tunesmith_copy_to_device(engine, *memory, values, bytes) : status;
}

static tunesmith_status attention_problem(tunesmith_problem** problem) {
  tunesmith_status status = tunesmith_problem_create("attention", problem);
  if (status == TUNESMITH_OK) status = tunesmith_problem_set_int(*problem, "heads", heads);
  if (status == TUNESMITH_OK) status = tunesmith_problem_set_int(*problem, "seq_q", queries);
  if (status == TUNESMITH_OK) status = tunesmith_problem_set_int(*problem, "seq_kv", keys);
  if (status == TUNESMITH_OK) status = tunesmith_problem_set_int(*problem, "head_dim", head_dim);
  if (status == TUNESMITH_OK) status = tunesmith_problem_set_string(*problem, "dtype", "f32");
  if (status == TUNESMITH_OK) status = tunesmith_problem_set_string(*problem, "causal", "bottom-right");
  return status;
}

int main(void) {
  static float q[query_elements], kv[key_elements], by_option[query_elements], by_function[query_elements];
  static const float slopes[heads] = {0.5f, 0.25f, 0.125f, 0.0625f};
  for (int i = 0; i < query_elements; ++i) q[i] = sinf((float)i);
  for (int i = 0; i < key_elements; ++i) kv[i] = cosf((float)(i * 7));

  tunesmith_engine* engine = NULL;
  CHECK(tunesmith_engine_create(NULL, &engine)); /* reads device, mode and cache from the environment */
  void *device_q = NULL, *device_kv = NULL, *device_o = NULL, *device_slopes = NULL;
  CHECK(upload(engine, q, sizeof q, &device_q));
  CHECK(upload(engine, kv, sizeof kv, &device_kv)); /* the keys are also the values */
  CHECK(upload(engine, slopes, sizeof slopes, &device_slopes));
  CHECK(tunesmith_allocate(engine, sizeof by_function, &device_o));

  tunesmith_problem* problem = NULL;
  tunesmith_plan* plan = NULL;
  CHECK(attention_problem(&problem));
  CHECK(tunesmith_problem_set_int(problem, "alibi", 1));
  const char* const option_names[] = {"q", "k", "v", "alibi_slopes", "o"};
  void* const addresses[] = {device_q, device_kv, device_kv, device_slopes, device_o};
  CHECK(tunesmith_prepare(engine, problem, NULL, TUNESMITH_MODE_OF_ENGINE, &plan));
  CHECK(tunesmith_plan_launch_named(plan, option_names, addresses, 5, NULL)); /* without lse, which is optional */
  CHECK(tunesmith_synchronize(engine, NULL));
  CHECK(tunesmith_copy_to_host(engine, by_option, device_o, sizeof by_option));

  tunesmith_plan_destroy(plan);
  tunesmith_problem_destroy(problem);

  /* The function instead of the option. */
  CHECK(attention_problem(&problem));
  CHECK(tunesmith_problem_set_string(problem, "score_mod", alibi));
  CHECK(tunesmith_problem_set_string(problem, "aux", "offset:i32=seq_kv-seq_q")); /* the last query is at the last key */
  const char* const function_names[] = {"q", "k", "v", "slopes", "o"};
  CHECK(tunesmith_prepare(engine, problem, NULL, TUNESMITH_MODE_OF_ENGINE, &plan));
  CHECK(tunesmith_plan_launch_named(plan, function_names, addresses, 5, NULL));
  CHECK(tunesmith_synchronize(engine, NULL));
  CHECK(tunesmith_copy_to_host(engine, by_function, device_o, sizeof by_function));

  float difference = 0;
  for (int i = 0; i < query_elements; ++i) difference = fmaxf(difference, fabsf(by_function[i] - by_option[i]));
  printf("tunesmith %s on %s: ALiBi as a function and as the option differ by %s\n", tunesmith_version(),
         tunesmith_engine_device(engine), difference < 1e-5f ? "less than 1e-5" : "too much");

  tunesmith_plan_destroy(plan);
  tunesmith_problem_destroy(problem);
  CHECK(tunesmith_release(engine, device_q));
  CHECK(tunesmith_release(engine, device_kv));
  CHECK(tunesmith_release(engine, device_slopes));
  CHECK(tunesmith_release(engine, device_o));
  tunesmith_engine_destroy(engine);
  return difference < 1e-5f ? EXIT_SUCCESS : EXIT_FAILURE;
}
