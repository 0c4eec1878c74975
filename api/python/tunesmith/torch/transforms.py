"""What may see a call besides the kernel: autograd, autocast, modes, torch.compile, and transforms of torch.func."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: Types whose instances are read; instances of subclasses are not.
TYPES: list[type] = [torch.Tensor, torch.nn.Parameter]
is_compiling = torch.compiler.is_dynamo_compiling  # other tracers are modes, which launchers see
_forward_ad = torch.autograd.forward_ad
GUARDS: list[Callable[[], object]] = [
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    torch._C._functorch.peek_interpreter_stack,
    lambda: _forward_ad._current_level >= 0,
]


def is_eager(*tensors: torch.Tensor) -> bool:
    """Whether a call may go to the launcher directly: nothing traces, transforms or intercepts it."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and _forward_ad._current_level < 0
        and not any(tensor.is_neg() or type(tensor) not in TYPES for tensor in tensors)
    )


def autocast_dtype(tensor: torch.Tensor) -> torch.dtype | None:
    """Return the dtype to which autocast casts on the tensor's device; None without autocast."""
    kind = tensor.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):  # torch knows no autocast of meta tensors
        return None
    return torch.get_autocast_dtype(kind)


def is_transformed() -> bool:
    """Whether a transform of torch.func or forward-mode autograd may see the call."""
    if is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None or _forward_ad._current_level >= 0


def needs_grad(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd records a call."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def reject_gradients(operation: str, **tensors: torch.Tensor | None) -> None:
    """Raise NotImplementedError if autograd wants the gradient of a tensor that has none."""
    for name, tensor in tensors.items():
        if needs_grad(tensor):
            raise NotImplementedError(f"tunesmith: {operation} has no gradient of {name}; detach it")


def transformable(
    operator: Callable[..., Any],
    setup_context: Callable[..., None],
    gradient: Callable[..., Any],
    *,
    vmap: bool = False,
    jvp: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return an operator for calls under torch.func, whose grad does not see the gradient that operators register.

    vmap: the operator and that of its gradient have a rule for vmap. jvp: the forward-mode derivative, as of
    torch.autograd.Function; without it, forward-mode autograd raises NotImplementedError.
    """

    members = {
        "forward": staticmethod(lambda *arguments: operator(*arguments)),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(gradient),
        "jvp": staticmethod(jvp or no_forward_mode(operator.__name__)),
        "generate_vmap_rule": vmap,
    }
    return type("Transformed", (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]


def no_forward_mode(operation: str) -> Callable[..., Any]:
    """Return the forward-mode derivative of an operation without one, which raises NotImplementedError."""

    def jvp(*_: Any) -> Any:
        raise NotImplementedError(
            f"tunesmith: {operation} has no forward-mode derivative (jvp); reverse mode works: backward(), "
            "torch.func.vjp, torch.func.grad, torch.func.jacrev"
        )

    return jvp


def no_second_derivative(operation: str) -> Callable[..., Any]:
    """Return the gradient of an operation's gradient, which raises NotImplementedError."""

    def gradient(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(f"tunesmith: {operation} has no second derivative")

    return gradient


def no_context(*_: Any, **__: Any) -> None:
    """Save nothing for a gradient."""
