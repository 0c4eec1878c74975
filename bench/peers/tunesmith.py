"""Binds the part of Tunesmith's C API that the side-by-sides need, through ctypes. No other file knows the C API."""
import ctypes
import os

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
MODES = {"tune": 0, "replay": 1, "off": 2, "later": 3}


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("mode", ctypes.c_char_p),
                ("effort", ctypes.c_char_p), ("tune_budget_s", ctypes.c_double), ("cache_file", ctypes.c_char_p),
                ("system_caches", ctypes.c_char_p), ("cuda_folders", ctypes.c_char_p),
                ("templates_folder", ctypes.c_char_p), ("dump_folder", ctypes.c_char_p),
                ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p), ("tune_share", ctypes.c_double),
                ("tune_allowance_s", ctypes.c_double), ("plan_capacity", ctypes.c_size_t),
                ("specialize", ctypes.c_char_p)]


class Array(ctypes.Structure):
    """tunesmith_array."""
    _fields_ = [("name", ctypes.c_char_p), ("role", ctypes.c_int), ("dtype", ctypes.c_int), ("optional", ctypes.c_int),
                ("rank", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_int64), ("alignment", ctypes.c_int64),
                ("in_place_of", ctypes.c_char_p), ("meaning", ctypes.c_char_p)]


class Engine:
    """An engine on the current GPU.

    `library`: path of libtunesmith.so; `options`: fields of tunesmith_options."""

    def __init__(self, library, **options):
        self._lib = lib = ctypes.CDLL(os.path.abspath(library))
        for name in ("last_error", "last_error_log", "plan_problem", "plan_config", "plan_origin", "version",
                     "engine_device"):
            getattr(lib, "tunesmith_" + name).restype = ctypes.c_char_p
        for name in ("plan_bytes", "plan_tune_s"):
            getattr(lib, "tunesmith_" + name).restype = ctypes.c_double
        lib.tunesmith_plan_workspace_bytes.restype = ctypes.c_size_t
        lib.tunesmith_plan_arrays.restype = ctypes.POINTER(Array)
        # Side-by-sides compare tuned kernels, however long tuning takes.
        opts = Options(struct_size=ctypes.sizeof(Options), device=b"cuda", tune_share=1.0)
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
                    status = lib.tunesmith_problem_set_string(problem, name.encode(), value.encode())
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

    def linear(self, hidden, weight, targets, *, stream, memory_bytes=0, fields=None, **arrays):
        """Returns (launch, scratch bytes, tokens per chunk) of linear + cross-entropy with the mean loss and both gradients.

        `arrays`: loss, lse, dhidden, dweight. `fields`: further ones of the problem."""
        fields = {**(fields or {}), **({"memory_bytes": memory_bytes} if memory_bytes else {})}
        plan = self.plan("linear_cross_entropy", tokens=hidden.shape[0], hidden_size=hidden.shape[1],
                         vocab_size=weight.shape[0], dtype=dtype_name(hidden), dhidden=1, dweight=1, **fields)
        tensors = dict(arrays, hidden=hidden, weight=weight, targets=targets)
        launch = plan.launcher(*(tensors.get(name) for name in plan.arrays), stream=stream)
        return launch, plan.workspace_bytes, int(plan.fields["chunk_tokens"])


def untuned(library, specialize):
    """Returns an engine that neither tunes nor keeps anything, with kernels of widths (`exact`) or of buckets (`capacity`)."""
    return Engine(library, mode="off", cache_file="", system_caches="", specialize=specialize)


class Plan:
    """A prepared kernel and its facts."""

    def __init__(self, engine, handle):
        self._engine, self._handle = engine, handle
        self.config = engine._lib.tunesmith_plan_config(handle).decode()
        self.origin = engine._lib.tunesmith_plan_origin(handle).decode()
        self.tune_s = engine._lib.tunesmith_plan_tune_s(handle)
        self.bytes = engine._lib.tunesmith_plan_bytes(handle)
        self.workspace_bytes = engine._lib.tunesmith_plan_workspace_bytes(handle)
        count = ctypes.c_size_t()
        arrays = engine._lib.tunesmith_plan_arrays(handle, ctypes.byref(count))
        self.arrays = [arrays[i].name.decode() for i in range(count.value)]
        self.sizes = [arrays[i].bytes for i in range(count.value)]
        problem = engine._lib.tunesmith_plan_problem(handle).decode()
        self.fields = dict(field.split("=", 1) for field in problem.split(" ", 1)[1].split(","))

    def __del__(self):
        self._engine._lib.tunesmith_plan_destroy(self._handle)

    def launcher(self, *tensors, stream):
        """Returns a function that launches on these tensors, in the order of `arrays`; None leaves out an optional array. It
        packs the arguments once and keeps plan and tensors alive."""
        arrays = (ctypes.c_void_p * len(tensors))(*(None if t is None else t.data_ptr() for t in tensors))
        lib, handle, count = self._engine._lib, self._handle, ctypes.c_size_t(len(tensors))
        call, stream, plan = lib.tunesmith_plan_launch, ctypes.c_void_p(stream), self

        def launch():
            if call(handle, arrays, count, stream) != 0:
                raise RuntimeError(plan._engine._lib.tunesmith_last_error().decode())

        launch.tensors = tensors
        return launch


def dtype_name(tensor):
    return _DTYPES[str(tensor.dtype).removeprefix("torch.")]
