#ifndef TUNESMITH_C_API_H
#define TUNESMITH_C_API_H
/*
 * Tunesmith for C and for every language that can load libtunesmith.so. Operations, fields and arrays have names, so a
 * binding needs no code for a single operation: create a problem, set its fields, prepare a plan, ask the plan for its
 * arrays, allocate them, launch. `tunesmith ops` lists the operations, and `tunesmith source OP --help` the fields of one.
 *
 * Errors: functions that can fail return a status; 0 is success. tunesmith_last_error() returns one line that names the
 * argument, its value and what is allowed. It belongs to the calling thread until that thread's next failing call. Output
 * parameters are written on success only.
 * Threads: any number of threads may use an engine, a plan, or a problem that none of them changes.
 * Lifetime: a string or an array that a function returns lives as long as the handle that it came from. A plan outlives its
 * engine. Destroying NULL does nothing.
 */
#include <stddef.h>
#include <stdint.h>

#include "tunesmith/version.h"

#if defined(_WIN32)
#define TUNESMITH_API
#else
#define TUNESMITH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tunesmith_status {
  TUNESMITH_OK = 0,
  TUNESMITH_INVALID_ARGUMENT = 1,    /* a shape, dtype, pointer, option or configuration that is not allowed */
  TUNESMITH_UNSUPPORTED = 2,         /* allowed in general, impossible on this device or architecture */
  TUNESMITH_NOT_FOUND = 3,           /* a file, operation, plan or cache entry that does not exist */
  TUNESMITH_IO = 4,                  /* a file that cannot be read, written or understood */
  TUNESMITH_NO_COMPILER = 5,         /* NVRTC (or the host compiler) was not found or cannot be opened */
  TUNESMITH_NO_DEVICE = 6,           /* no CUDA driver or no such GPU */
  TUNESMITH_COMPILE_FAILED = 7,      /* generated source that does not compile: see tunesmith_last_error_log */
  TUNESMITH_DEVICE_FAILED = 8,       /* the driver refused a call or a kernel faulted */
  TUNESMITH_VERIFICATION_FAILED = 9, /* a kernel ran and its result differs from the float64 reference */
  TUNESMITH_CANCELLED = 10,
  TUNESMITH_CAPTURING = 11,     /* the call would have to compile, tune or synchronize during a stream capture */
  TUNESMITH_OUT_OF_MEMORY = 12, /* host or device memory is exhausted */
  TUNESMITH_CACHE_FAILED = 13,
  TUNESMITH_INTERNAL = 99 /* a defect of Tunesmith */
} tunesmith_status;

/* Element types of arrays. */
typedef enum tunesmith_dtype {
  TUNESMITH_F32 = 0,
  TUNESMITH_F16 = 1,
  TUNESMITH_BF16 = 2,
  TUNESMITH_U8 = 3,
  TUNESMITH_I32 = 4,
  TUNESMITH_I64 = 5
} tunesmith_dtype;

typedef enum tunesmith_mode {
  TUNESMITH_MODE_OF_ENGINE = -1,
  TUNESMITH_MODE_TUNE = 0,   /* unseen keys are tuned on first use */
  TUNESMITH_MODE_REPLAY = 1, /* never measure: exact record, else nearest, else default configuration */
  TUNESMITH_MODE_OFF = 2     /* ignore tuning records: the default configuration */
} tunesmith_mode;

typedef enum tunesmith_log_level { TUNESMITH_LOG_INFO = 0, TUNESMITH_LOG_WARNING = 1 } tunesmith_log_level;

typedef struct tunesmith_engine tunesmith_engine;
typedef struct tunesmith_problem tunesmith_problem;
typedef struct tunesmith_plan tunesmith_plan;
/* A CUstream or cudaStream_t; NULL is the default stream. The host executor ignores it and runs synchronously. */
typedef void* tunesmith_stream;

/*
 * How an engine is set up. Set struct_size to sizeof(tunesmith_options) and everything else to zero, then the fields you
 * care about: a field that is zero takes its value from the environment (TUNESMITH_MODE, TUNESMITH_CACHE, ...), else its
 * default.
 */
typedef struct tunesmith_options {
  size_t struct_size;           /* tells which fields exist */
  const char* device;           /* "auto", "cuda", "cuda:N" or "host". Default "auto" */
  const char* mode;             /* "tune", "replay" or "off". Default "tune" */
  const char* effort;           /* "quick" or "full". Default "quick" */
  double tune_budget_s;         /* wall seconds for tuning one key. Default 10 */
  const char* cache_file;       /* "": nothing persists. Default $XDG_CACHE_HOME/tunesmith/cache.db */
  const char* system_caches;    /* read-only cache files, ':'-separated, looked at before the one that ships
                                   with the library; "": none, not even that one. Default: that one */
  const char* cuda_folders;     /* searched for libnvrtc first, ':'-separated. Default none */
  const char* templates_folder; /* render from here instead of the embedded templates. Default none */
  const char* dump_folder;      /* where the source of a failed compilation goes. Default: the temporary folder */
  /* Receives warnings and one info line per compilation and tuning, on any thread; must not call the engine. */
  void (*log)(tunesmith_log_level level, const char* line, void* log_context);
  void* log_context;
} tunesmith_options;

/* "0.1.0". */
TUNESMITH_API const char* tunesmith_version(void);
/* "invalid_argument"; "unknown" for a number that is no status. */
TUNESMITH_API const char* tunesmith_status_name(tunesmith_status status);
/* Of the calling thread's last failing call; "" when there was none. */
TUNESMITH_API const char* tunesmith_last_error(void);
/* The compiler's output and the path of the dumped source; "" unless that call's status was TUNESMITH_COMPILE_FAILED. */
TUNESMITH_API const char* tunesmith_last_error_log(void);
TUNESMITH_API const char* tunesmith_last_error_source_path(void);

/* Opens a device, not the compiler. `options` NULL: everything from the environment. */
TUNESMITH_API tunesmith_status tunesmith_engine_create(const tunesmith_options* options, tunesmith_engine** engine);
TUNESMITH_API void tunesmith_engine_destroy(tunesmith_engine* engine);
/* "NVIDIA H200"; "" for NULL. */
TUNESMITH_API const char* tunesmith_engine_device(const tunesmith_engine* engine);
/* 1 when the host executor stands in for a GPU: results are right, speed means nothing. */
TUNESMITH_API int tunesmith_engine_is_host(const tunesmith_engine* engine);
/* Waits for the work on a stream. Not during a capture. */
TUNESMITH_API tunesmith_status tunesmith_synchronize(tunesmith_engine* engine, tunesmith_stream stream);

/* Device memory for callers that have no allocator of their own, 256-byte aligned. Release it before the engine is
 * destroyed. Copies are complete when they return and wait for the default stream only. */
TUNESMITH_API tunesmith_status tunesmith_allocate(tunesmith_engine* engine, size_t bytes, void** memory);
TUNESMITH_API tunesmith_status tunesmith_release(tunesmith_engine* engine, void* memory);
TUNESMITH_API tunesmith_status tunesmith_copy_to_device(tunesmith_engine* engine, void* device, const void* host,
                                                        size_t bytes);
TUNESMITH_API tunesmith_status tunesmith_copy_to_host(tunesmith_engine* engine, void* host, const void* device,
                                                      size_t bytes);

/* The name of an operation, by its number from 0; NULL past the last one. */
TUNESMITH_API const char* tunesmith_op(size_t number);

/*
 * A problem: an operation ("softmax") and its fields by name. Absent fields have their defaults, and zero is zero. A boolean
 * is an integer, 0 or 1; an element type, an enum value or a user function's CUDA source is a string: "bf16",
 * "bottom-right". The structs in tunesmith/softmax.h, cross_entropy.h, attention.h and linear_cross_entropy.h explain the
 * fields. The functions that set a field do not check it; the others do.
 */
TUNESMITH_API tunesmith_status tunesmith_problem_create(const char* op, tunesmith_problem** problem);
TUNESMITH_API void tunesmith_problem_destroy(tunesmith_problem* problem);
TUNESMITH_API tunesmith_status tunesmith_problem_set_int(tunesmith_problem* problem, const char* field, int64_t value);
TUNESMITH_API tunesmith_status tunesmith_problem_set_real(tunesmith_problem* problem, const char* field, double value);
TUNESMITH_API tunesmith_status tunesmith_problem_set_string(tunesmith_problem* problem, const char* field,
                                                            const char* value);
/* The normal form, "softmax rows=4,cols=8,...", with all defaults filled in. `text` is valid until the problem changes. */
TUNESMITH_API tunesmith_status tunesmith_problem_text(const tunesmith_problem* problem, const char** text);

typedef enum tunesmith_role {
  TUNESMITH_INPUT = 0,
  TUNESMITH_OUTPUT = 1,
  TUNESMITH_IN_OUT = 2 /* read and written */
} tunesmith_role;

/* An array of a problem. */
typedef struct tunesmith_array {
  const char* name; /* "x" */
  tunesmith_role role;
  tunesmith_dtype dtype;
  int optional; /* 1: a launch accepts NULL */
  int rank;
  const int64_t* shape;    /* `rank` extents */
  const int64_t* strides;  /* elements; 0 repeats the array along a dimension */
  int64_t bytes;           /* from the address to the end of the last element; 0 if the array is empty */
  int64_t alignment;       /* the address must be a multiple of it, in bytes */
  const char* in_place_of; /* the input that this output overwrites: pass the same address for both; "": none */
  const char* meaning;     /* one line; may be "" */
} tunesmith_array;

/* The arrays of a problem in the order in which a launch takes them. They are valid until the problem changes. */
TUNESMITH_API tunesmith_status tunesmith_problem_arrays(const tunesmith_problem* problem, const tunesmith_array** arrays,
                                                        size_t* count);

/* Selects a configuration, or tunes if the mode allows it, and compiles or loads the kernels. `config`: NULL, or a
 * configuration to use, complete or partial: "variant=online,threads=512". `mode`: a tunesmith_mode. Must not be called
 * during a stream capture. linear_cross_entropy on a GPU requires cuBLASLt (TUNESMITH_NOT_FOUND). */
TUNESMITH_API tunesmith_status tunesmith_prepare(tunesmith_engine* engine, const tunesmith_problem* problem,
                                                 const char* config, int mode, tunesmith_plan** plan);
TUNESMITH_API void tunesmith_plan_destroy(tunesmith_plan* plan);
/* The arrays of a plan in the order in which tunesmith_plan_launch takes them; NULL and a count of 0 for NULL. */
TUNESMITH_API const tunesmith_array* tunesmith_plan_arrays(const tunesmith_plan* plan, size_t* count);
/* Enqueues the kernels and returns. `addresses`: device addresses in the order of tunesmith_plan_arrays; the memory must
 * remain valid until the work is complete. May be called during a stream capture; linear_cross_entropy, after a first launch
 * outside of one. */
TUNESMITH_API tunesmith_status tunesmith_plan_launch(const tunesmith_plan* plan, void* const* addresses, size_t count,
                                                     tunesmith_stream stream);
/* The same by name, in any order; optional arrays may be left out. */
TUNESMITH_API tunesmith_status tunesmith_plan_launch_named(const tunesmith_plan* plan, const char* const* names,
                                                           void* const* addresses, size_t count, tunesmith_stream stream);
/* Prepares and launches in one call; `addresses` are in the order of tunesmith_problem_arrays. The addresses determine the
 * alignments and whether an output overwrites an input, whatever the fields say. The problem remembers the plan, so that a
 * repeated call costs a launch and a check of the addresses. */
TUNESMITH_API tunesmith_status tunesmith_run(tunesmith_engine* engine, const tunesmith_problem* problem,
                                             void* const* addresses, size_t count, tunesmith_stream stream);
/* Measures the device time of `repeats` launches, one after the other, and writes it to time_us[0..repeats) in microseconds.
 * If flush_cache is not 0, flushes the last-level cache before each launch. TUNESMITH_UNSUPPORTED with the host executor. */
TUNESMITH_API tunesmith_status tunesmith_plan_time_us(const tunesmith_plan* plan, void* const* addresses, size_t count,
                                                      int repeats, int flush_cache, double* time_us);

/* Properties of a plan; "" or 0 for NULL. The kernels of linear_cross_entropy are those of one chunk's cross_entropy; its
 * text contains the chunk_tokens in use. */
TUNESMITH_API const char* tunesmith_plan_problem(const tunesmith_plan* plan); /* normal form: "softmax rows=...,cols=..." */
TUNESMITH_API const char* tunesmith_plan_config(const tunesmith_plan* plan);  /* tunesmith_prepare accepts it */
TUNESMITH_API const char* tunesmith_plan_origin(
    const tunesmith_plan* plan); /* pinned, tuned, exact, older, nearest, default */
TUNESMITH_API const char* tunesmith_plan_source(const tunesmith_plan* plan);    /* the CUDA source, exactly as compiled */
TUNESMITH_API const char* tunesmith_plan_resources(const tunesmith_plan* plan); /* "registers=40,..." or "" */
TUNESMITH_API int tunesmith_plan_compiled(const tunesmith_plan* plan);          /* 1: compiled now; 0: loaded */
TUNESMITH_API double tunesmith_plan_compile_ms(const tunesmith_plan* plan);     /* 0 unless compiled */
TUNESMITH_API double tunesmith_plan_tune_s(const tunesmith_plan* plan);         /* wall seconds; 0 unless origin is tuned */
TUNESMITH_API int tunesmith_plan_occupancy(const tunesmith_plan* plan);         /* resident blocks per multiprocessor */
/* Least memory traffic and arithmetic of one launch; of attention, as if mask_mod hid nothing. */
TUNESMITH_API double tunesmith_plan_bytes(const tunesmith_plan* plan);
TUNESMITH_API double tunesmith_plan_flops(const tunesmith_plan* plan);
/* Scratch memory of one launch. The plan owns it, unless the problem has caller_workspace=1: then it is an array. */
TUNESMITH_API size_t tunesmith_plan_workspace_bytes(const tunesmith_plan* plan);

#ifdef __cplusplus
}
#endif

#endif /* TUNESMITH_C_API_H */
