#ifndef TUNESMITH_C_API_H
#define TUNESMITH_C_API_H
/*
 * Tunesmith for C, and for every language that can load libtunesmith.so. The same calls as tunesmith/engine.h, whose
 * comments say more about each.
 *
 * Errors: functions that can fail return a status; 0 is success. The message is one line that names the argument, its value
 * and what is allowed; it belongs to the calling thread and stays until that thread's next failing call. Output parameters
 * are written on success only.
 * Threads: an engine and a plan may be used by any number of threads at once; a problem by one at a time.
 * Lifetime: a string that a function returns lives as long as the handle it was asked from. A plan outlives its engine.
 * Destroying NULL does nothing.
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

/* Element types: of what kernels compute with, of class indices, and of what a user's text reads. */
typedef enum tunesmith_dtype {
  TUNESMITH_F32 = 0,
  TUNESMITH_F16 = 1,
  TUNESMITH_BF16 = 2,
  TUNESMITH_U8 = 3,
  TUNESMITH_I32 = 4,
  TUNESMITH_I64 = 5
} tunesmith_dtype;

/* What becomes of the rows' losses. */
typedef enum tunesmith_reduction {
  TUNESMITH_REDUCTION_MEAN = 0, /* over the weights of the targets; NaN when no row counts */
  TUNESMITH_REDUCTION_SUM = 1,
  TUNESMITH_REDUCTION_NONE = 2
} tunesmith_reduction;

/* What an upstream gradient (dloss) holds. */
typedef enum tunesmith_upstream {
  TUNESMITH_UPSTREAM_BY_REDUCTION = 0, /* an element a row for TUNESMITH_REDUCTION_NONE, else one */
  TUNESMITH_UPSTREAM_SCALAR = 1,       /* one element */
  TUNESMITH_UPSTREAM_ROW = 2           /* an element a row */
} tunesmith_upstream;

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

/* An operation ("softmax") and its fields by name, e.g. rows and cols (int), dtype (word: "f32", "f16", "bf16"). Fields are
 * checked by tunesmith_prepare; those left out take their defaults.
 * Options are fields too, and this is how they are given: softmax, log_softmax and their gradients (softmax_backward,
 * log_softmax_backward) have scale (real), causal, valid_cols, valid_cols_group, safe (int), mask (word: "none", "add",
 * "keep"), mask_dtype (word), and mask_inner, mask_middle, mask_row_stride, mask_middle_stride, mask_outer_stride,
 * mask_alignment (int); tunesmith/softmax_options.h says what they mean.
 * The cross-entropy family, whose fields tunesmith/cross_entropy.h explains (int unless something else is said; those of a
 * second operation only where they differ):
 * cross_entropy: rows, cols, dtype, target_dtype, out_dtype (words), logits_row_stride, dlogits_row_stride,
 * logits_alignment, dlogits_alignment, gradient (word: "none", "separate", "in_place"), ignore_index, label_smoothing,
 * z_loss, scale, softcap (real), reduction (word: "mean", "sum", "none"), weight, dloss (word: "none", "scalar", "row"),
 * nll, predicted, correct, check_targets. cross_entropy_backward: no gradient, predicted, correct, check_targets; in_place,
 * vocab_start, vocab_size; dloss is "scalar" or "row". cross_entropy_shard: rows, cols, dtype, target_dtype,
 * logits_row_stride, logits_alignment, vocab_start, vocab_size, ignore_index, label_smoothing, scale, softcap, weight,
 * predicted. cross_entropy_combine: rows, shards, vocab_size, target_dtype, ignore_index, label_smoothing, z_loss,
 * reduction, weight, nll, predicted, correct, check_targets.
 * attention, whose fields tunesmith/attention.h explains: batch, heads, kv_heads, seq_q, seq_kv, head_dim, head_dim_v,
 * dtype, layout (word: "bshd", "bhsd"), causal (word: "none", "top-left", "bottom-right"), window_left, window_right, scale,
 * softcap (real), alibi, sinks, varlen, total_q, total_kv, score_mod, mask_mod (words: CUDA text), aux (word: declarations
 * such as "slopes:f32[heads];window:i64=128"), mask_tiles (word: "internal", "write", "read"), and for each array A of q, k,
 * v, o A_batch_stride, A_seq_stride, A_head_stride, A_alignment. Only seq_q and head_dim must be given. */
TUNESMITH_API tunesmith_status tunesmith_problem_create(const char* op, tunesmith_problem** problem);
TUNESMITH_API void tunesmith_problem_destroy(tunesmith_problem* problem);
TUNESMITH_API tunesmith_status tunesmith_problem_set_int(tunesmith_problem* problem, const char* field, int64_t value);
TUNESMITH_API tunesmith_status tunesmith_problem_set_real(tunesmith_problem* problem, const char* field, double value);
TUNESMITH_API tunesmith_status tunesmith_problem_set_word(tunesmith_problem* problem, const char* field, const char* word);

/* How many elements one of the problem's arrays has, called as at tunesmith_plan_launch: "mask_tiles". */
TUNESMITH_API tunesmith_status tunesmith_problem_elements(const tunesmith_problem* problem, const char* array,
                                                          int64_t* elements);

/* Selects, compiles or loads, tunes when the mode says so. `config`: NULL, or a configuration to use as it is, complete or
 * in part: "variant=online,threads=512". `mode`: -1 for the engine's. Not while any stream captures a graph. */
TUNESMITH_API tunesmith_status tunesmith_prepare(tunesmith_engine* engine, const tunesmith_problem* problem,
                                                 const char* config, int mode, tunesmith_plan** plan);
TUNESMITH_API void tunesmith_plan_destroy(tunesmith_plan* plan);
/* Enqueues the kernels and returns. `arrays`: device addresses in the operation's order, valid until the work is done:
 * softmax and log_softmax x, y, their gradients dy, y, dx; then the mask and valid_cols, each if the problem has it;
 * cross_entropy logits, targets, [weight], [dloss], loss, lse, [z_loss], [nll], [predicted], [correct], [bad_targets],
 * [dlogits]; cross_entropy_backward logits, targets, lse, dloss, [nll], [weight], dlogits; cross_entropy_shard logits,
 * targets, [weight], parts; cross_entropy_combine parts, targets, loss, lse, [z_loss], [nll], [predicted], [correct],
 * [bad_targets]; attention q, k, v, [alibi_slopes], [sinks], [cu_seqlens_q], [cu_seqlens_kv], arrays that score_mod and
 * mask_mod declare, [mask_tiles], o, lse (or NULL): those in brackets if the problem has them. May be captured. */
TUNESMITH_API tunesmith_status tunesmith_plan_launch(const tunesmith_plan* plan, void* const* arrays, size_t count,
                                                     tunesmith_stream stream);
/* Device time of `repeats` launches one after the other, each with a flushed last-level cache if flush_cache is not 0;
 * written to time_us[0..repeats), in microseconds. TUNESMITH_UNSUPPORTED on the host executor. */
TUNESMITH_API tunesmith_status tunesmith_time_us(const tunesmith_plan* plan, void* const* arrays, size_t count, int repeats,
                                                 int flush_cache, double* time_us);

/* Facts about a plan; "" or 0 for NULL. */
TUNESMITH_API const char* tunesmith_plan_problem(const tunesmith_plan* plan); /* normalized: "softmax rows=...,cols=..." */
TUNESMITH_API const char* tunesmith_plan_config(const tunesmith_plan* plan);  /* accepted by tunesmith_prepare */
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

/* y[r,:] = softmax(x[r,:]). Strides in elements between rows, 0: cols; dtypes are tunesmith_dtype. The first call for a
 * shape prepares a plan, later ones look it up in nanoseconds. x == y works in place when dtypes and strides agree. */
TUNESMITH_API tunesmith_status tunesmith_softmax(tunesmith_engine* engine, const void* x, void* y, int64_t rows,
                                                 int64_t cols, int64_t x_row_stride, int64_t y_row_stride, int dtype,
                                                 int out_dtype, tunesmith_stream stream);

/* The same for y[r,:] = log(softmax(x[r,:])). */
TUNESMITH_API tunesmith_status tunesmith_log_softmax(tunesmith_engine* engine, const void* x, void* y, int64_t rows,
                                                     int64_t cols, int64_t x_row_stride, int64_t y_row_stride, int dtype,
                                                     int out_dtype, tunesmith_stream stream);
/* Their gradients: dx from dy and from y as the forward call gave it. dtype is of dy and y, out_dtype of dx; dx == dy works
 * in place when dtypes and strides agree. These four take no options: those go through tunesmith_problem_create. */
TUNESMITH_API tunesmith_status tunesmith_softmax_backward(tunesmith_engine* engine, const void* dy, const void* y, void* dx,
                                                          int64_t rows, int64_t cols, int64_t dy_row_stride,
                                                          int64_t y_row_stride, int64_t dx_row_stride, int dtype,
                                                          int out_dtype, tunesmith_stream stream);
TUNESMITH_API tunesmith_status tunesmith_log_softmax_backward(tunesmith_engine* engine, const void* dy, const void* y,
                                                              void* dx, int64_t rows, int64_t cols, int64_t dy_row_stride,
                                                              int64_t y_row_stride, int64_t dx_row_stride, int dtype,
                                                              int out_dtype, tunesmith_stream stream);

/*
 * Cross-entropy: the formulas, and what becomes of ignored rows, targets that are no class, NaN and infinities, are in
 * tunesmith/cross_entropy.h. In all structs set struct_size to the struct's size and everything else to zero, then the
 * fields you care about: zero is the default.
 */
typedef struct tunesmith_cross_entropy_problem {
  size_t struct_size;         /* tells which fields exist */
  int64_t rows;               /* tokens */
  int64_t cols;               /* classes; for the gradient of a shard of the vocabulary its classes */
  int dtype;                  /* of logits: TUNESMITH_F32, TUNESMITH_F16 or TUNESMITH_BF16 */
  int out_dtype;              /* of dlogits, likewise; counts only with dlogits */
  int target_dtype;           /* of targets and predicted: TUNESMITH_I64 (0 is too) or TUNESMITH_I32 */
  int reduction;              /* tunesmith_reduction. Default mean */
  int64_t logits_row_stride;  /* elements between rows; 0: cols */
  int64_t dlogits_row_stride; /* elements between rows; 0: cols */
  int has_ignore_index;       /* 0: rows with target -100 count for nothing; else those with target ignore_index */
  int dloss;                  /* tunesmith_upstream. Default by reduction */
  int64_t ignore_index;       /* counts only with has_ignore_index */
  double label_smoothing;     /* 0 to 1 */
  double z_loss;              /* factor of lse^2 */
  double scale;               /* factor of logits; 0: 1 */
  double softcap;             /* logits become softcap * tanh(logits / softcap); 0: they do not */
  int64_t vocab_start;        /* gradient only: class of the first column */
  int64_t vocab_size;         /* gradient only: classes in all shards; 0: vocab_start + cols */
  int check_targets;          /* loss only. Not 0: the call waits for the stream and fails with TUNESMITH_INVALID_ARGUMENT,
                                 naming the first row, when a target is neither a class nor ignored; not during a capture */
  int reserved;               /* 0 */
} tunesmith_cross_entropy_problem;

/* Device addresses. An array that may be NULL switches its option on when it is not. */
typedef struct tunesmith_cross_entropy_arrays {
  size_t struct_size;  /* tells which fields exist */
  const void* logits;  /* (rows, cols) */
  const void* targets; /* (rows) */
  const void* weight;  /* float32 (cols), or NULL */
  const void* dloss;   /* float32, (1) or (rows) as the problem says, or NULL */
  void* loss;          /* float32: (rows) without a reduction, else (1) */
  void* lse;           /* float32 (rows) */
  void* z_loss;        /* float32, as loss; for a z_loss above 0 only, then required */
  void* nll;           /* float32 (rows), or NULL */
  void* predicted;     /* (rows) of target_dtype, or NULL */
  void* correct;       /* int64 (1), or NULL */
  void* bad_targets;   /* int64 (2): how many targets are neither a class nor ignored, and the first row or -1; or NULL */
  void* dlogits;       /* (rows, cols), may be logits; or NULL: no gradient */
} tunesmith_cross_entropy_arrays;

typedef struct tunesmith_cross_entropy_backward_arrays {
  size_t struct_size;  /* tells which fields exist */
  const void* logits;  /* (rows, cols) */
  const void* targets; /* (rows) */
  const void* lse;     /* float32 (rows), as the loss left it */
  const void* dloss;   /* float32, (1) or (rows) as the problem says */
  const void* nll;     /* float32 (rows), as the loss left it: digits for rows of which the model is sure; or NULL */
  const void* weight;  /* float32 (cols), or NULL */
  void* dlogits;       /* (rows, cols), may be logits */
} tunesmith_cross_entropy_backward_arrays;

/* The loss, lse and what else is asked for; with dlogits the gradient in the same pass. The first call for a problem
 * prepares a plan, later ones look it up in nanoseconds. The loss of a vocabulary that is spread over devices
 * ("cross_entropy_shard", "cross_entropy_combine") goes through tunesmith_problem_create. */
TUNESMITH_API tunesmith_status tunesmith_cross_entropy(tunesmith_engine* engine,
                                                       const tunesmith_cross_entropy_arrays* arrays,
                                                       const tunesmith_cross_entropy_problem* problem,
                                                       tunesmith_stream stream);
/* The gradient alone, from lse. */
TUNESMITH_API tunesmith_status tunesmith_cross_entropy_backward(tunesmith_engine* engine,
                                                                const tunesmith_cross_entropy_backward_arrays* arrays,
                                                                const tunesmith_cross_entropy_problem* problem,
                                                                tunesmith_stream stream);

/*
 * Attention: the formulas, what masks, windows, packed sequences and queries that see no key mean, and how score_mod and
 * mask_mod are written, are in tunesmith/attention.h. In all structs set struct_size to the struct's size and everything
 * else to zero, then the fields you care about. A field that is zero has its default. Where zero is a value of its own (an
 * empty KV cache, a window of one key, a stride that broadcasts), the field's has_ member must be 1 for it.
 */
/* Order of the dimensions of q, k, v and o. */
typedef enum tunesmith_layout {
  TUNESMITH_BSHD = 0, /* batch, sequence, heads, head_dim */
  TUNESMITH_BHSD = 1  /* batch, heads, sequence, head_dim */
} tunesmith_layout;

/* Which keys behind its own place a query does not see. */
typedef enum tunesmith_causal {
  TUNESMITH_CAUSAL_NONE = 0,
  TUNESMITH_CAUSAL_TOP_LEFT = 1,    /* query i stands at key i */
  TUNESMITH_CAUSAL_BOTTOM_RIGHT = 2 /* the last query stands at the last key */
} tunesmith_causal;

/* Where it is kept what mask_mod leaves of tiles of 64 queries and 64 keys. */
typedef enum tunesmith_mask_tiles {
  TUNESMITH_MASK_TILES_INTERNAL = 0, /* found out by every call, in memory of the plan's */
  TUNESMITH_MASK_TILES_WRITE = 1,    /* found out, and written to the array mask_tiles */
  TUNESMITH_MASK_TILES_READ = 2      /* read from there, as a call wrote it: trusted */
} tunesmith_mask_tiles;

/* An array or a number that score_mod and mask_mod read as a member of their argument aux, beside those that the comment
 * which a text opens with declares; of one name, this counts. Kernels are not specialized for lengths and numbers. */
typedef struct tunesmith_attention_aux {
  size_t struct_size; /* tells which fields exist */
  const char* name;   /* of the member: "slopes" */
  int dtype;          /* a tunesmith_dtype: of an array any; of a number TUNESMITH_F32, TUNESMITH_I32 or TUNESMITH_I64 */
  int has_length;     /* 0: a number; else an array of `length` elements */
  int64_t length;     /* counts only with has_length */
  int64_t integer;    /* the number's value is one of these three, the other two are zero */
  double real;
  const char* word; /* integers and sizes of the problem, their sums and products: "2*seq_kv-1" */
} tunesmith_attention_aux;

/* Elements from one index to the next in each dimension but head_dim; 0: contiguous in the layout. */
typedef struct tunesmith_attention_strides {
  int64_t batch, seq, head;
  int has_batch, has_seq, has_head; /* 1: a stride of 0 broadcasts; o rejects it */
  int reserved;                     /* 0 */
} tunesmith_attention_strides;

typedef struct tunesmith_attention_problem {
  size_t struct_size;   /* tells which fields exist */
  int64_t batch;        /* sequences */
  int64_t heads;        /* of queries */
  int64_t kv_heads;     /* of keys and values, a divisor of heads; 0: heads */
  int64_t seq_q;        /* queries of a sequence; packed: of the longest at most */
  int64_t seq_kv;       /* keys of a sequence, likewise; 0: seq_q, or with has_seq_kv an empty KV cache */
  int64_t head_dim;     /* of q and k, 8 to 256 in steps of 8 */
  int64_t head_dim_v;   /* of v and o, likewise; 0: head_dim */
  int dtype;            /* of q, k, v and o: TUNESMITH_F32, TUNESMITH_F16 or TUNESMITH_BF16 */
  int layout;           /* a tunesmith_layout */
  int causal;           /* a tunesmith_causal */
  int has_seq_kv;       /* 1: seq_kv counts even if it is 0 */
  int has_window_left;  /* 1: window_left counts even if it is 0 */
  int has_window_right; /* 1: window_right counts even if it is 0 */
  int has_total_q;      /* 1: total_q counts even if it is 0 */
  int has_total_kv;     /* 1: total_kv counts even if it is 0 */
  int mask_tiles;       /* a tunesmith_mask_tiles; with mask_mod only */
  int64_t window_left;  /* visible keys before the query's position; 0: all */
  int64_t window_right; /* visible keys after the query's position; 0: all; causal hides them */
  double scale;         /* factor of the dot products; 0: 1 / sqrt(head_dim) */
  double softcap;       /* scores become softcap * tanh(scores / softcap); 0: they do not */
  int64_t total_q;      /* queries of all packed sequences; required with cu_seqlens, invalid without */
  int64_t total_kv;     /* keys, likewise */
  tunesmith_attention_strides q_strides, k_strides, v_strides, o_strides;
  const char* score_mod;              /* CUDA text that makes another score of each, or NULL */
  const char* mask_mod;               /* CUDA text that says which keys count for a query, or NULL */
  const tunesmith_attention_aux* aux; /* what they read beside what they declare themselves: aux_count of it, or NULL */
  size_t aux_count;                   /* up to 8 together with what they declare */
  int alibi, sinks, varlen;           /* 1: arrays of that option (alibi_slopes, sinks, both cu_seqlens) are given. For
                                         tunesmith_problem_from_attention; tunesmith_attention goes by the arrays, and
                                         fails where one is missing */
  int reserved;                       /* 0 */
} tunesmith_attention_problem;

/* Device addresses. An array that may be NULL switches its option on when it is not. */
typedef struct tunesmith_attention_arrays {
  size_t struct_size;           /* tells which fields exist */
  const void* q;                /* (batch, seq_q, heads, head_dim) or as the layout says; packed: (total_q, ...) */
  const void* k;                /* (batch, seq_kv, kv_heads, head_dim), likewise */
  const void* v;                /* (batch, seq_kv, kv_heads, head_dim_v), likewise */
  const float* alibi_slopes;    /* (heads), or NULL */
  const float* sinks;           /* (heads), or NULL */
  const int32_t* cu_seqlens_q;  /* (batch + 1) where packed sequences start, or NULL */
  const int32_t* cu_seqlens_kv; /* likewise of keys; both or neither */
  void* o;                      /* (batch, seq_q, heads, head_dim_v), likewise */
  float* lse;                   /* (batch, heads, seq_q), packed: (heads, total_q); or NULL */
  /* Arrays that the texts read, aligned to an element, in the order of their declarations: those of score_mod's opening
   * lines, of mask_mod's, then what the problem's aux adds. Numbers take no place; the rest is NULL. */
  const void* aux[8];
  int32_t* mask_tiles; /* as many as tunesmith_problem_elements says, where the problem has them written or read; or NULL */
} tunesmith_attention_arrays;

/* The problem by its fields, for tunesmith_problem_elements ("mask_tiles") and tunesmith_prepare, which checks it; of q, k,
 * v and o it promises addresses that are multiples of 16 bytes, or what q_alignment, k_alignment, v_alignment and
 * o_alignment are then set to. What `problem` points to is copied. */
TUNESMITH_API tunesmith_status tunesmith_problem_from_attention(const tunesmith_attention_problem* problem,
                                                                tunesmith_problem** fields);

/* o and, where it is given, lse. The first call for a problem prepares a plan, later ones look it up in nanoseconds. With
 * score_mod or mask_mod it is looked up by the whole text, under a lock, in tens of microseconds: launch a plan of
 * tunesmith_problem_from_attention in a loop. A text that does not compile is TUNESMITH_COMPILE_FAILED, and the message
 * names its line. */
TUNESMITH_API tunesmith_status tunesmith_attention(tunesmith_engine* engine, const tunesmith_attention_arrays* arrays,
                                                   const tunesmith_attention_problem* problem, tunesmith_stream stream);

/*
 * Linear + cross-entropy in chunks of tokens: the logits of all tokens never exist. tunesmith/linear_cross_entropy.h says
 * what each field means. Set struct_size to the struct's size and everything else to zero, then the fields you care about.
 */
typedef struct tunesmith_linear_cross_entropy tunesmith_linear_cross_entropy;

typedef struct tunesmith_linear_cross_entropy_problem {
  size_t struct_size; /* tells which fields exist */
  int64_t tokens, hidden_size, vocab_size;
  int dtype;                   /* a tunesmith_dtype: of hidden, weight and dhidden */
  int i32_targets;             /* 1: targets and predicted are int32_t, else int64_t */
  int f32_logits;              /* 1: logits in f32, else in dtype */
  int dhidden, dweight;        /* 1: launch computes this gradient */
  int f32_dweight;             /* 1: dweight in f32, else in dtype, rounded once for each chunk */
  int reduction;               /* a tunesmith_reduction */
  int dloss;                   /* 1: launch is given the upstream gradient */
  int class_weight;            /* 1: launch is given a weight for each class */
  int nll, predicted;          /* 1: launch writes these */
  int caller_workspace;        /* 1: launch is given its scratch memory */
  const int64_t* ignore_index; /* NULL: -100 */
  double label_smoothing, z_loss, softcap;
  double scale;         /* 0: 1 */
  int64_t memory_bytes; /* most scratch memory; 0: 1 GiB */
  int64_t chunk_tokens; /* 0: as memory_bytes allows */
} tunesmith_linear_cross_entropy_problem;

typedef struct tunesmith_linear_cross_entropy_arrays {
  size_t struct_size;
  const void *hidden, *weight, *targets;
  const float *class_weight, *dloss;
  float *loss, *lse, *z_loss, *nll;
  void *predicted, *dhidden, *dweight, *workspace;
} tunesmith_linear_cross_entropy_arrays;

/* Prepares kernels and matrix products; on a GPU it needs cuBLASLt (TUNESMITH_NOT_FOUND). Outlives its engine. Not while any
 * stream captures a graph. */
TUNESMITH_API tunesmith_status tunesmith_linear_cross_entropy_prepare(tunesmith_engine* engine,
                                                                      const tunesmith_linear_cross_entropy_problem* problem,
                                                                      tunesmith_linear_cross_entropy** prepared);
TUNESMITH_API void tunesmith_linear_cross_entropy_destroy(tunesmith_linear_cross_entropy* prepared);
/* Enqueues everything and returns. May be captured once it has been launched outside of a capture. */
TUNESMITH_API tunesmith_status tunesmith_linear_cross_entropy_launch(const tunesmith_linear_cross_entropy* prepared,
                                                                     const tunesmith_linear_cross_entropy_arrays* arrays,
                                                                     tunesmith_stream stream);
/* Scratch memory of a launch in bytes, and the tokens of a chunk; 0 for NULL. */
TUNESMITH_API size_t tunesmith_linear_cross_entropy_workspace_bytes(const tunesmith_linear_cross_entropy* prepared);
TUNESMITH_API int64_t tunesmith_linear_cross_entropy_chunk_tokens(const tunesmith_linear_cross_entropy* prepared);

#ifdef __cplusplus
}
#endif

#endif /* TUNESMITH_C_API_H */
