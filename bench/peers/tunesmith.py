"""Tunesmith's C API through ctypes: just what the side-by-sides need."""
import ctypes
import os

_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
MODES = {"tune": 0, "replay": 1, "off": 2}


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("mode", ctypes.c_char_p),
                ("effort", ctypes.c_char_p), ("tune_budget_s", ctypes.c_double), ("cache_file", ctypes.c_char_p),
                ("system_caches", ctypes.c_char_p), ("cuda_folders", ctypes.c_char_p),
                ("templates_folder", ctypes.c_char_p), ("dump_folder", ctypes.c_char_p),
                ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p)]


class Engine:
    """An engine on the current GPU. `library`: path of libtunesmith.so; `options`: fields of tunesmith_options."""

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
        """A plan for a problem: str fields are words, float fields reals, everything else ints."""
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


class Plan:
    """A prepared kernel: its facts, and a launcher for given arrays."""

    def __init__(self, engine, handle):
        self._engine, self._handle = engine, handle
        self.config = engine._lib.tunesmith_plan_config(handle).decode()
        self.origin = engine._lib.tunesmith_plan_origin(handle).decode()
        self.tune_s = engine._lib.tunesmith_plan_tune_s(handle)
        self.bytes = engine._lib.tunesmith_plan_bytes(handle)

    def __del__(self):
        self._engine._lib.tunesmith_plan_destroy(self._handle)

    def launcher(self, *tensors, stream):
        """A function that launches on these tensors: the arguments are packed once. It keeps plan and tensors alive."""
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
