"""Random calls of tunesmith.torch, with views of tensors for every tensor, against float64 PyTorch.

    PYTHONPATH=build/debug/python:api/python/tests/torch build/torch-environment/bin/python -m random_calls SEED

repeats one call. A call draws a function, shapes, options, dtypes, layouts of all tensors, which of them require grad, and
whether autocast or torch.compile runs it. What lies between the elements of a view is NaN, or a number that is no index.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import random_caches
import random_fronts
import torch
from random_draws import Call, Draw

MODES = ["eager"] * 5 + ["autocast", "compile", "no_grad"]
F32 = 2.0**-24


def _softmax(draw: Draw) -> Call:
    import tunesmith.torch as tt

    causal = draw.maybe(0.2)
    shape = [draw.choice([1, 2, 5]) for _ in range(draw.randrange(3))] + [draw.choice([1, 7, 33])]
    if causal:
        shape = [draw.choice([1, 3]), 7, 7]
    dim = -1 if causal else draw.randrange(-len(shape), len(shape))
    scale = draw.choice([1.0, 1.0, 0.5])
    logarithm = draw.maybe()
    dtype = draw.choice([None, None, torch.float32, torch.bfloat16])

    def function(x: torch.Tensor) -> torch.Tensor:
        return (tt.log_softmax if logarithm else tt.softmax)(x, dim, scale=scale, causal=causal, dtype=dtype)

    def reference(x: torch.Tensor) -> torch.Tensor:
        x = x * scale
        if causal:
            x = x.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -torch.inf)
        return (torch.log_softmax if logarithm else torch.softmax)(x, dim)

    if logarithm and causal:  # infinities, which have no error
        return _softmax(draw)
    x = draw.floats("x", *shape, dtype=draw.dtype(), scale=draw.choice([1, 1, 8]))
    return Call(f"softmax(dim={dim}, {scale=}, {causal=}, {logarithm=}, {dtype=})", function, reference, {"x": x}, ["x"])


def _options_of_loss(draw: Draw) -> dict[str, Any]:
    options = {
        "reduction": draw.choice(["mean", "sum", "none"]),
        "label_smoothing": 0.1 if draw.maybe() else 0.0,
        "z_loss": 0.01 if draw.maybe() else 0.0,
        "softcap": 5.0 if draw.maybe(0.2) else 0.0,
        "scale": 0.5 if draw.maybe(0.2) else 1.0,
        "return_lse": draw.maybe(),
    }
    return {name: value for name, value in options.items() if value not in (0.0, False) and (name, value) != ("scale", 1.0)}


def _exact_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float = 0.0,
    scale: float = 1.0,
    return_lse: bool = False,
) -> Any:
    """Cross-entropy in float64, classes in the last dimension."""
    x = x * scale
    if softcap:
        x = softcap * torch.tanh(x / softcap)
    lse = torch.logsumexp(x, -1)
    w = x.new_ones(x.shape[-1]) if weight is None else weight
    if target.is_floating_point():
        counts = torch.ones_like(lse, dtype=torch.bool)
        share = w * (target * (1 - label_smoothing) + label_smoothing / x.shape[-1])
        loss, total = (share * (lse[..., None] - x)).sum(-1), torch.tensor(float(lse.numel()))
    else:
        counts = target != -100
        index = target.clamp(min=0)
        own = w[index] * (lse - x.gather(-1, index[..., None])[..., 0])
        spread = (w * (lse[..., None] - x)).sum(-1) / x.shape[-1]
        loss = ((1 - label_smoothing) * own + label_smoothing * spread).where(counts, torch.zeros(()).to(x))
        total = (w[index] * counts).sum()
    term = (z_loss * lse**2).where(counts, torch.zeros(()).to(x))
    if reduction == "none":
        result = loss + term
    elif reduction == "sum":
        result = (loss + term).sum()
    else:
        result = loss.sum() / total + (term.sum() / counts.sum() if z_loss else 0)
    return (result, lse) if return_lse else result


def _cross_entropy(draw: Draw) -> Call:
    import tunesmith.torch as tt

    classes, rows = draw.choice([1, 7, 33]), draw.choice([1, 3, 5])
    shape = draw.choice([(classes,), (rows, classes), (rows, classes, 3), (2, classes, 2, 3)])
    of_rows = shape[:1] + shape[2:] if len(shape) > 1 else ()
    options = _options_of_loss(draw)
    tensors = {"x": draw.floats("x", *shape, dtype=draw.dtype())}
    if draw.maybe(0.2):
        made = torch.softmax(torch.randn(shape, generator=draw.generator), 1 if len(shape) > 1 else 0)
        tensors["target"] = draw.laid_out("target", made)
    else:
        tensors["target"] = draw.integers(
            "target", classes, *of_rows, dtype=draw.choice([torch.int64, torch.int64, torch.int32])
        )
        if of_rows and draw.maybe():
            tensors["target"] = draw.laid_out(
                "target again", tensors["target"].clone().index_fill_(0, torch.tensor([0]), -100)
            )
            if options.get("reduction", "mean") == "mean":
                options["reduction"] = "sum"
    if draw.maybe():
        tensors["weight"] = draw.floats("weight", classes).abs()
    last = (lambda t: t.movedim(1, -1)) if len(shape) > 2 else (lambda t: t)

    def function(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None) -> Any:
        return tt.cross_entropy(x, target, weight, **options)

    def reference(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None) -> Any:
        soft = target.is_floating_point()
        return _exact_loss(last(x), last(target) if soft else target.long(), weight, **options)

    return Call(f"cross_entropy({options})", function, reference, tensors, ["x"], roundings=16)


def _linear_cross_entropy(draw: Draw) -> Call:
    import tunesmith.torch as tt

    tokens, hidden, classes = draw.choice([1, 5, 6]), draw.choice([8, 16]), draw.choice([1, 7, 40])
    dtype, options = draw.dtype(), _options_of_loss(draw)
    shape = draw.choice([(tokens, hidden), (2, tokens, hidden)])
    tensors = {
        "input": draw.floats("input", *shape, dtype=dtype),
        "linear_weight": draw.floats("linear_weight", classes, hidden, dtype=dtype, scale=0.25),
        "target": draw.integers("target", classes, *shape[:-1]),
    }
    inputs, cast = ["input", "linear_weight"], ["input", "linear_weight"]
    if draw.maybe():
        tensors["linear_bias"] = draw.floats("linear_bias", classes, dtype=dtype)
        inputs, cast = [*inputs, "linear_bias"], [*cast, "linear_bias"]
    if draw.maybe():
        tensors["weight"] = draw.floats("weight", classes).abs()

    def function(**given: Any) -> Any:
        return tt.linear_cross_entropy(**given, **options)

    def reference(input: Any, linear_weight: Any, target: Any, linear_bias: Any = None, weight: Any = None) -> Any:
        x = input @ linear_weight.mT
        return _exact_loss(x if linear_bias is None else x + linear_bias, target, weight, **options)

    return Call(f"linear_cross_entropy({options})", function, reference, tensors, inputs, "cast", cast, 32)


def _linear_log_probs(draw: Draw) -> Call:
    import tunesmith.torch as tt

    tokens, hidden, classes = draw.choice([1, 5, 6]), draw.choice([3, 8, 16]), draw.choice([1, 7, 40])
    dtype = draw.choice([torch.float32, torch.bfloat16])
    shape = draw.choice([(tokens, hidden), (2, tokens, hidden)])
    tensors = {
        "input": draw.floats("input", *shape, dtype=dtype),
        "linear_weight": draw.floats("linear_weight", classes, hidden, dtype=dtype, scale=0.25),
        "target": draw.integers("target", classes, *shape[:-1]),
    }
    temperature, softcap = draw.choice([1.0, 0.5]), draw.choice([0.0, 0.0, 5.0])
    options = {"temperature": temperature, "softcap": softcap, "return_entropy": draw.maybe(0.5)}
    options |= {"ignore_index": draw.choice([-100, 0]), "memory_bytes": draw.choice([1 << 30, 4 * classes])}

    def function(**given: Any) -> Any:
        return tt.linear_log_probs(**given, **options)

    def reference(input: Any, linear_weight: Any, target: Any) -> Any:
        x = input @ linear_weight.mT / temperature
        if softcap:
            x = softcap * torch.tanh(x / softcap)
        log_probs = torch.log_softmax(x, -1)
        chosen = log_probs.gather(-1, target[..., None])[..., 0]
        chosen = chosen.where(target != options["ignore_index"], torch.zeros(()).to(chosen))
        return (chosen, -(log_probs.exp() * log_probs).sum(-1)) if options["return_entropy"] else chosen

    inputs = ["input", "linear_weight"]
    return Call(f"linear_log_probs({options})", function, reference, tensors, inputs, "cast", inputs, 32)


def _norm(draw: Draw) -> Call:
    import tunesmith.torch as tt

    cols = draw.choice([1, 7, 32])
    shape = [draw.choice([1, 2, 5]) for _ in range(draw.randrange(3))] + [cols]
    dtype = draw.dtype()
    tensors = {"x": draw.floats("x", *shape, dtype=dtype)}
    weighted, offset = draw.maybe(0.7), draw.choice([0.0, 1.0])
    if weighted:
        tensors["weight"] = draw.floats("weight", cols, dtype=draw.choice([dtype, torch.float32]))

    def function(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        return tt.rms_norm(x, None, weight, 1e-3, weight_offset=offset if weighted else 0.0)

    def reference(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3)
        return y if weight is None else y * (weight + offset)

    return Call(f"rms_norm({offset=})", function, reference, tensors, list(tensors), roundings=16)


def _shipped(draw: Draw) -> Call:
    import tunesmith.torch as tt

    rows, cols, dtype = draw.choice([1, 5]), draw.choice([7, 32]), draw.dtype()
    name = draw.choice(["layer_norm", "swiglu"])
    tensors = {"x": draw.floats("x", 2, rows, cols, dtype=dtype)}
    if name == "layer_norm":
        tensors.update(w=draw.floats("w", cols, dtype=dtype), b=draw.floats("b", cols, dtype=dtype))
        exact: Callable[..., Any] = lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, 1e-3)  # noqa: E731
        called: Callable[..., Any] = lambda x, w, b: tt.layer_norm(x, w, b, eps=1e-3)  # noqa: E731
    else:
        tensors["up"] = draw.floats("up", 2, rows, cols, dtype=dtype)
        exact = lambda x, up: torch.nn.functional.silu(x) * up  # noqa: E731
        called = lambda x, up: tt.swiglu(x, up)  # noqa: E731
    kind = "f32" if name == "layer_norm" else "none"
    return Call(f"{name}()", called, exact, tensors, list(tensors), kind, roundings=32)


def _attention(draw: Draw) -> Call:
    import tunesmith.torch as tt
    from tunesmith import mods as tracer

    batch, kv_heads, group = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2])
    heads, dim, dim_v = kv_heads * group, draw.choice([8, 16]), draw.choice([8, 16])
    seq_q, seq_kv, dtype = draw.choice([1, 5, 17]), draw.choice([5, 17]), draw.dtype()
    layout = draw.choice(["bshd", "bhsd"])
    shape = (lambda s, h, d: (batch, s, h, d)) if layout == "bshd" else (lambda s, h, d: (batch, h, s, d))
    tensors = {
        "q": draw.floats("q", *shape(seq_q, heads, dim), dtype=dtype),
        "k": draw.floats("k", *shape(seq_kv, kv_heads, dim), dtype=dtype),
        "v": draw.floats("v", *shape(seq_kv, kv_heads, dim_v), dtype=dtype),
    }
    inputs, cast = ["q", "k", "v"], ["q", "k", "v"]
    options: dict[str, Any] = {"layout": layout}
    if draw.maybe():
        options["causal"] = draw.choice([True, "top-left"])
    if draw.maybe(0.2):
        options["window"] = draw.choice([(3, None), (2, 1)])
    if draw.maybe(0.2):
        options["softcap"] = 3.0
    if draw.maybe():
        options["scale"] = 0.5
    if draw.maybe(0.2):
        options["return_lse"] = True
    for name in ("alibi_slopes", "sinks"):
        if draw.maybe(0.2):
            tensors[name] = draw.floats(name, heads)
            inputs.append(name)
    if draw.maybe(0.4):
        tensors["bias"] = draw.floats("bias", heads, seq_q + seq_kv, dtype=draw.dtype())
        inputs.append("bias")
    if draw.maybe(0.4):
        tensors["document"] = draw.integers("document", 3, seq_kv, batch, dtype=draw.choice([torch.int32, torch.uint8]))

    def mods(bias: Any, document: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if bias is not None:
            found["score_mod"] = lambda score, b, h, q, k: score + bias[h, q - k + seq_kv - 1]
        if document is not None:
            found["mask_mod"] = lambda b, h, q, k: (document[k, b] != 0) | (k == 0)
        return found

    def function(bias: Any = None, document: Any = None) -> Callable[..., Any]:
        traced = {name: tracer.trace(mod, name) for name, mod in mods(bias, document).items()}
        return lambda **others: tt.attention(**others, **traced, **options)

    def reference(
        q: Any, k: Any, v: Any, bias: Any = None, document: Any = None, alibi_slopes: Any = None, sinks: Any = None
    ) -> Any:
        if layout == "bshd":
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        k, v = (one.repeat_interleave(group, 1) for one in (k, v))
        scores = q @ k.mT * options.get("scale", dim**-0.5)
        cap, (left, right) = options.get("softcap"), options.get("window", (None, None))
        if cap:
            scores = cap * torch.tanh(scores / cap)
        i, j = torch.arange(seq_q)[:, None], torch.arange(seq_kv)
        causal = options.get("causal")
        place = i if causal == "top-left" else i + seq_kv - seq_q
        if bias is not None:
            scores = scores + bias[:, i - j + seq_kv - 1]
        if alibi_slopes is not None:
            scores = scores - alibi_slopes[:, None, None] * (place - j).abs()
        seen = torch.ones(seq_q, seq_kv, dtype=torch.bool)
        if causal:
            seen = seen & (j <= place)
        if left is not None:
            seen = seen & (place - j <= left)
        if right is not None:
            seen = seen & (j - place <= right)
        if document is not None:
            of_batch = (document.mT[:, None, None, :] != 0) | (j == 0)
            seen = seen & of_batch
        scores = scores.masked_fill(~seen, -torch.inf)
        all_scores = scores
        if sinks is not None:
            all_scores = torch.cat([scores, sinks[:, None, None].expand(batch, heads, seq_q, 1)], -1)
        weights = torch.softmax(all_scores, -1).nan_to_num()[..., :seq_kv]
        o = weights @ v
        o = o.transpose(1, 2) if layout == "bshd" else o
        return (o, torch.logsumexp(all_scores, -1).detach()) if "return_lse" in options else o

    if "window" in options and "alibi_slopes" in tensors:  # one more term for either, of the same positions
        options.pop("window")
    return Call(f"attention({options})", function, reference, tensors, inputs, "cast", cast, 64, ("bias", "document"))


def _varlen(draw: Draw) -> Call:
    import tunesmith.torch as tt

    heads, dim, dtype, gap = 2, 16, draw.dtype(), draw.choice([0, 0, 2])
    lengths = [draw.choice([0, 1, 5]) for _ in range(3)]
    total = gap + sum(lengths) + draw.choice([0, 3])
    starts = (torch.tensor([0, *lengths]).cumsum(0) + gap).int()
    tensors = {name: draw.floats(name, max(total, 1), heads, dim, dtype=dtype) for name in ("q", "k", "v")}
    tensors["starts"] = draw.laid_out("starts", starts)
    if tensors["starts"].stride(0) == 0:
        tensors["starts"] = starts
    causal = draw.maybe()

    def function(q: Any, k: Any, v: Any, starts: Any) -> Any:
        return tt.attention_varlen(q, k, v, starts, starts, 5, 5, causal=causal, return_lse=True)

    def reference(q: Any, k: Any, v: Any, starts: Any) -> Any:
        rows: list[Any] = [torch.zeros(gap, heads, dim, dtype=q.dtype)]
        lse: list[Any] = [torch.full((heads, gap), -torch.inf, dtype=q.dtype)]
        for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            scores = torch.einsum("qhd,khd->hqk", q[first:last], k[first:last]) / dim**0.5
            if causal:
                scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), -torch.inf)
            rows.append(torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), v[first:last]))
            lse.append(torch.logsumexp(scores, -1))
        rest = q.shape[0] - int(starts[-1])
        rows.append(torch.zeros(rest, heads, dim, dtype=q.dtype))
        lse.append(torch.full((heads, rest), -torch.inf, dtype=q.dtype))
        return torch.cat(rows), torch.cat(lse, 1).detach()

    text = f"attention_varlen({lengths=}, {gap=}, {total=}, {causal=})"
    return Call(text, function, reference, tensors, ["q", "k", "v"], "cast", ["q", "k", "v"], 64)


CALLS = [
    *(_softmax, _cross_entropy, _cross_entropy, _linear_cross_entropy, _linear_log_probs),
    *(_norm, _shipped, _attention, _attention, _varlen),
    *(random_caches.paged_attention, random_caches.kv_append),
    *(random_fronts.sdpa, random_fronts.flex_attention, random_fronts.row_program),
]


def run(seed: int) -> str:
    """Run the call of a seed and compare; return what it was. Raises AssertionError with that text."""
    draw = Draw(seed)
    call, mode = draw.choice(CALLS)(draw), draw.choice(MODES)
    mode = "eager" if mode == "compile" and not call.compiles else mode
    wanted = [name for name in call.inputs if mode != "no_grad" and draw.maybe(0.8)]
    text = f"{call.text} {mode}, gradients of {wanted}\n  " + "\n  ".join(draw.notes)
    try:
        _compare(call, mode, wanted, draw)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {text}\n{type(error).__name__}: {error}") from error
    return text


def _compare(call: Call, mode: str, wanted: Sequence[str], draw: Draw) -> None:
    given = {name: one.detach().requires_grad_(name in wanted) for name, one in call.tensors.items()}

    def exactly(name: str, one: torch.Tensor) -> torch.Tensor:
        one = one.detach()
        if mode == "autocast" and call.autocast == "cast" and name in call.cast:
            one = one.bfloat16()
        return (one.double() if one.is_floating_point() else one).requires_grad_(name in wanted)

    exact = {name: exactly(name, one) for name, one in call.tensors.items()}
    expected = call.reference(**exact)
    expected = expected if isinstance(expected, tuple) else (expected,)
    before = {name: _memory(one).clone() for name, one in call.tensors.items()}
    function, arguments = call.function, given
    if call.captured:
        function = function(**{name: one for name, one in given.items() if name in call.captured})
        arguments = {name: one for name, one in given.items() if name not in call.captured}
    if mode == "compile":
        torch.compiler.reset()
        function = torch.compile(function, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
        results = function(**arguments)
    results = results if isinstance(results, tuple) else (results,)
    for name, one in call.tensors.items():
        changed = (_memory(one) != before[name]).view(-1, one.element_size()).any(-1)
        if name in call.written:
            changed.as_strided(one.shape, one.stride(), one.storage_offset()).fill_(False)
        assert not changed.any(), f"{name} is written, or what lies between its elements"
    unit = max(torch.finfo(one.dtype).eps / 2 for name, one in given.items() if _is_read(call, name, one))
    if mode == "autocast" and call.autocast == "cast":
        unit = max(unit, torch.finfo(torch.bfloat16).eps / 2)
    units = [max(unit, torch.finfo(one.dtype).eps / 2) for one in results]
    for i, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
        _close(f"result {i}", ours, theirs, call.roundings * (units[i] + 64 * F32))
    if not wanted:
        return
    pairs = [(ours, theirs) for ours, theirs in zip(results, expected, strict=True) if theirs.requires_grad]
    upstream = [draw.floats(f"upstream {i}", *ours.shape, dtype=ours.dtype) for i, (ours, _) in enumerate(pairs)]
    found = torch.autograd.grad([ours for ours, _ in pairs], [given[name] for name in wanted], upstream, allow_unused=True)
    exact_gradients = torch.autograd.grad(
        [theirs for _, theirs in pairs],
        [exact[name] for name in wanted],
        [one.double() for one in upstream],
        allow_unused=True,
    )
    for name, ours, theirs in zip(wanted, found, exact_gradients, strict=True):
        if theirs is None:
            continue
        assert ours is not None, f"{name} has no gradient"
        assert ours.dtype == given[name].dtype, f"the gradient of {name} is {ours.dtype}"
        _close(f"gradient of {name}", ours, theirs, 4 * call.roundings * (max(units) + 64 * F32))


def _is_read(call: Call, name: str, tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and name not in call.written


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor's memory, with what lies around the tensor."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.detach().untyped_storage())


def _close(what: str, ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> None:
    assert ours.shape == theirs.shape, f"{what} has the shape {tuple(ours.shape)}; expected {tuple(theirs.shape)}"
    ours, theirs = ours.detach().double(), theirs.detach()
    finite = theirs.isfinite()
    assert torch.equal(ours[~finite].nan_to_num(9e99), theirs[~finite].nan_to_num(9e99)), (
        f"{what} differs where it is infinite"
    )
    if not finite.any():
        return
    largest = max(1.0, theirs[finite].abs().max().item())
    error = (ours - theirs)[finite].abs().nan_to_num(float("inf")).max().item()
    assert error <= tolerance * largest, f"{what} is off by {error:.3g}; allowed: {tolerance * largest:.3g}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for argument in sys.argv[1:]:
        print(run(int(argument)))
