"""The exceptions of Tunesmith. Each is an Error and the built-in exception that fits it."""

from __future__ import annotations

import threading


class Error(Exception):
    """An error of the library: one line that names the argument, its value and what is allowed."""

    #: The kind of the error, as the C++ and C interfaces name it.
    code = "internal"


class InvalidArgument(Error, ValueError):
    """A shape, element type, address, option or configuration that is not allowed."""

    code = "invalid_argument"


class Unsupported(Error, NotImplementedError):
    """Allowed in general, impossible on this device or architecture."""

    code = "unsupported"


class NotFound(Error, LookupError):
    """A file, operation, plan or cache entry that does not exist."""

    code = "not_found"


class InputOutput(Error, OSError):
    """A file that cannot be read, written or understood."""

    code = "io"


class NoCompiler(Error, RuntimeError):
    """NVRTC, or the host's C++ compiler, was not found."""

    code = "no_compiler"


class NoDevice(Error, RuntimeError):
    """No CUDA driver or no such GPU."""

    code = "no_device"


class CompileFailed(Error, RuntimeError):
    """Generated source that does not compile."""

    code = "compile_failed"
    #: The compiler's output.
    log = ""
    #: The file that holds the source; empty if no folder was writable.
    source_path = ""


class DeviceFailed(Error, RuntimeError):
    """A driver call failed or a kernel faulted."""

    code = "device_failed"


class VerificationFailed(Error, RuntimeError):
    """A kernel ran, and its result differs from the float64 reference."""

    code = "verification_failed"


class Cancelled(Error, RuntimeError):
    """Stopped on request; nothing was stored.

    The thread whose callback for progress raised gets that exception instead; threads that waited for its result get this.
    """

    code = "cancelled"


class Capturing(Error, RuntimeError):
    """The call would have to compile, tune or synchronize during a stream capture."""

    code = "capturing"


class OutOfMemory(Error, MemoryError):
    """Host or device memory is exhausted."""

    code = "out_of_memory"


class CacheFailed(Error, RuntimeError):
    """A cache command failed; lookups never raise it."""

    code = "cache_failed"


_CLASSES: dict[str, type[Error]] = {each.code: each for each in Error.__subclasses__()}


_kept = threading.local()


def keep(exception: BaseException) -> None:
    """Keep what a callback raised until the library's error that it causes arrives on this thread."""
    _kept.exception = exception


def make(code: str, message: str, log: str, source_path: str) -> BaseException:
    """Return the exception for an error of the C++ library."""
    kept: BaseException | None = vars(_kept).pop("exception", None)
    if code == Cancelled.code and kept is not None:
        return kept
    if code == NoCompiler.code and "NVRTC" in message:
        message += "; `pip install tunesmith[cu13]` (or cu12) installs NVRTC"
    error = _CLASSES.get(code, Error)(message)
    if isinstance(error, CompileFailed):
        error.log, error.source_path = log, source_path
    return error
