"""Binds the part of Tunesmith's C API that the side-by-sides need, through ctypes. No other file knows the C API."""
import ctypes
import os

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_C_DTYPES = {"f32": 0, "f16": 1, "bf16": 2}  # tunesmith_dtype
MODES = {"tune": 0, "replay": 1, "off": 2}


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("mode", ctypes.c_char_p),
                ("effort", ctypes.c_char_p), ("tune_budget_s", ctypes.c_double), ("cache_file", ctypes.c_char_p),
                ("system_caches", ctypes.c_char_p), ("cuda_folders", ctypes.c_char_p),
                ("templates_folder", ctypes.c_char_p), ("dump_folder", ctypes.c_char_p),
                ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p)]


class LinearProblem(ctypes.Structure):
    """tunesmith_linear_cross_entropy_problem. Fields that are not set are zero, the default."""
    _fields_ = ([("struct_size", ctypes.c_size_t)] +
                [(name, ctypes.c_int64) for name in ("tokens", "hidden_size", "vocab_size")] +
                [(name, ctypes.c_int) for name in ("dtype", "i32_targets", "f32_logits", "dhidden", "dweight", "f32_dweight",
                                                   "reduction", "dloss", "class_weight", "nll", "predicted",
                                                   "caller_workspace")] +
                [("ignore_index", ctypes.POINTER(ctypes.c_int64))] +
                [(name, ctypes.c_double) for name in ("label_smoothing", "z_loss", "softcap", "scale")] +
                [(name, ctypes.c_int64) for name in ("memory_bytes", "chunk_tokens")])


class LinearArrays(ctypes.Structure):
    """tunesmith_linear_cross_entropy_arrays."""
    _fields_ = [("struct_size", ctypes.c_size_t)] + [(name, ctypes.c_void_p) for name in (
        "hidden", "weight", "targets", "class_weight", "dloss", "loss", "lse", "z_loss", "nll", "predicted", "dhidden",
        "dweight", "workspace")]


class Engine:
    """An engine on the current GPU.

    `library`: path of libtunesmith.so; `options`: fields of tunesmith_options."""

    def __init__(self, library, **options):
        self._lib = lib = ctypes.CDLL(os.path.abspath(library))
        for name in ("last_error", "last_error_log", "plan_config", "plan_origin", "version", "engine_device"):
            getattr(lib, "tunesmith_" + name).restype = ctypes.c_char_p
        for name in ("plan_bytes", "plan_tune_s"):
            getattr(lib, "tunesmith_" + name).restype = ctypes.c_double
        opts = Options(struct_size=ctypes.sizeof(Options), device=b"cuda")
        for name, value in options.items():
            setattr(opts, name, value.encode() if isinstance(value, str) else value)
        self._handle = ctypes.c_void_p()
        self._check(lib.tunesmith_engine_create(ctypes.byref(opts), ctypes.byref(self._handle)))
        self.version = lib.tunesmith_version().decode()

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self._lib.tunesmith_last_error().decode())

    def plan(self, op, config=None, mode=-1, **fields):
        """Prepares a problem: str fields are strings, float fields reals, all others integers."""
        lib, problem, plan = self._lib, ctypes.c_void_p(), ctypes.c_void_p()
        self._check(lib.tunesmith_problem_create(op.encode(), ctypes.byref(problem)))
        try:
            for name, value in fields.items():
                if isinstance(value, str):
                    status = lib.tunesmith_problem_set_word(problem, name.encode(), value.encode())
                elif isinstance(value, float):
                    status = lib.tunesmith_problem_set_real(problem, name.encode(), ctypes.c_double(value))
                else:
                    status = lib.tunesmith_problem_set_int(problem, name.encode(), ctypes.c_int64(value))
                self._check(status)
            self._check(lib.tunesmith_prepare(self._handle, problem, config.encode() if config else None, mode,
                                              ctypes.byref(plan)))
        finally:
            lib.tunesmith_problem_destroy(problem)
        return Plan(self, plan)

    def linear(self, hidden, weight, targets, *, stream, memory_bytes=0, **arrays):
        """Returns (launch, scratch bytes, tokens per chunk) of linear + cross-entropy with the mean loss and both gradients.

        `arrays`: loss, lse, dhidden, dweight. Raises if the library has no such function."""
        lib = self._lib
        if not hasattr(lib, "tunesmith_linear_cross_entropy_prepare"):
            raise RuntimeError(f"libtunesmith {self.version} has no tunesmith_linear_cross_entropy_prepare")
        lib.tunesmith_linear_cross_entropy_workspace_bytes.restype = ctypes.c_size_t
        lib.tunesmith_linear_cross_entropy_chunk_tokens.restype = ctypes.c_int64
        problem = LinearProblem(struct_size=ctypes.sizeof(LinearProblem), tokens=hidden.shape[0], hidden_size=hidden.shape[1],
                                vocab_size=weight.shape[0], dtype=_C_DTYPES[dtype_name(hidden)], dhidden=1, dweight=1,
                                memory_bytes=memory_bytes)
        prepared = ctypes.c_void_p()
        self._check(lib.tunesmith_linear_cross_entropy_prepare(self._handle, ctypes.byref(problem), ctypes.byref(prepared)))
        tensors = dict(arrays, hidden=hidden, weight=weight, targets=targets)
        given = LinearArrays(struct_size=ctypes.sizeof(LinearArrays), **{name: t.data_ptr() for name, t in tensors.items()})

        def launch():
            self._check(lib.tunesmith_linear_cross_entropy_launch(prepared, ctypes.byref(given), ctypes.c_void_p(stream)))

        launch.tensors = tensors  # live as long as the function; `prepared` lives until the process ends
        return (launch, lib.tunesmith_linear_cross_entropy_workspace_bytes(prepared),
                lib.tunesmith_linear_cross_entropy_chunk_tokens(prepared))


class Plan:
    """A prepared kernel and its facts."""

    def __init__(self, engine, handle):
        self._engine, self._handle = engine, handle
        self.config = engine._lib.tunesmith_plan_config(handle).decode()
        self.origin = engine._lib.tunesmith_plan_origin(handle).decode()
        self.tune_s = engine._lib.tunesmith_plan_tune_s(handle)
        self.bytes = engine._lib.tunesmith_plan_bytes(handle)

    def __del__(self):
        self._engine._lib.tunesmith_plan_destroy(self._handle)

    def launcher(self, *tensors, stream):
        """Returns a function that launches on these tensors. It packs the arguments once and keeps plan and tensors
        alive."""
        arrays = (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
        lib, handle, count = self._engine._lib, self._handle, ctypes.c_size_t(len(tensors))
        call, stream, plan = lib.tunesmith_plan_launch, ctypes.c_void_p(stream), self

        def launch():
            if call(handle, arrays, count, stream) != 0:
                raise RuntimeError(plan._engine._lib.tunesmith_last_error().decode())

        launch.tensors = tensors
        return launch


def dtype_name(tensor):
    return _DTYPES[str(tensor.dtype).removeprefix("torch.")]
