"""Calls with one wrong argument: an error that names it, at the first call, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tunesmith.torch as tt

NAN = float("nan")


def _q(heads: int = 2, seq: int = 5, dim: int = 16, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, seq, heads, dim).to(dtype)


def _packed() -> torch.Tensor:
    return torch.randn(5, 2, 16)


def _starts(dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor([0, 2, 5], dtype=dtype)


def _targets() -> torch.Tensor:
    return torch.tensor([1, 2, 3])


#: What the error names, and the call.
INVALID: list[tuple[str, Callable[[], Any]]] = [
    ("dtype", lambda: tt.softmax(torch.ones(2, 3, dtype=torch.int64))),
    ("scale", lambda: tt.softmax(torch.ones(2, 3), scale=0.0)),
    ("scale", lambda: tt.softmax(torch.ones(2, 3), scale=-1.0)),
    ("scale", lambda: tt.softmax(torch.ones(2, 3), scale=NAN)),
    ("scale", lambda: tt.log_softmax(torch.ones(2, 3), scale=float("inf"))),
    ("[Dd]im", lambda: tt.softmax(torch.ones(2, 3), 2)),
    ("out", lambda: tt.softmax(torch.ones(2, 3), out=torch.empty(3, 2))),
    ("input", lambda: tt.softmax(torch.tensor(1.0))),
    ("target", lambda: tt.cross_entropy(torch.ones(3, 7), torch.tensor([1, 2]))),
    ("target", lambda: tt.cross_entropy(torch.ones(3, 7), torch.tensor([1, 2, 3], dtype=torch.int16))),
    ("target", lambda: tt.cross_entropy(torch.ones(3, 7), torch.ones(3, 6))),
    ("weight", lambda: tt.cross_entropy(torch.ones(3, 7), _targets(), torch.ones(6))),
    ("reduction", lambda: tt.cross_entropy(torch.ones(3, 7), _targets(), reduction="average")),
    ("reduction", lambda: tt.cross_entropy(torch.ones(3, 7), torch.ones(3, 7), reduction="average")),
    ("label_smoothing", lambda: tt.cross_entropy(torch.ones(3, 7), _targets(), label_smoothing=1.5)),
    ("label_smoothing", lambda: tt.cross_entropy(torch.ones(3, 7), torch.ones(3, 7), label_smoothing=NAN)),
    ("softcap", lambda: tt.cross_entropy(torch.ones(3, 7), _targets(), softcap=-1.0)),
    ("softcap", lambda: tt.cross_entropy(torch.ones(3, 7), torch.ones(3, 7), softcap=-1.0)),
    ("z_loss", lambda: tt.cross_entropy(torch.ones(3, 7), _targets(), z_loss=-1.0)),
    ("scale", lambda: tt.cross_entropy(torch.ones(3, 7), _targets(), scale=0.0)),
    ("scale", lambda: tt.cross_entropy(torch.ones(3, 7), torch.ones(3, 7), scale=NAN)),
    ("target", lambda: tt.linear_cross_entropy(torch.ones(3, 8), torch.ones(7, 8), torch.tensor([1, 2]))),
    ("weight", lambda: tt.linear_cross_entropy(torch.ones(3, 8), torch.ones(7, 9), _targets())),
    ("weight", lambda: tt.linear_cross_entropy(torch.ones(3, 8), torch.ones(7, 8).half(), _targets())),
    ("weight", lambda: tt.linear_cross_entropy(torch.ones(3, 8), torch.ones(7, 8), _targets(), weight=torch.ones(6))),
    ("bias", lambda: tt.linear_cross_entropy(torch.ones(3, 8), torch.ones(7, 8), _targets(), linear_bias=torch.ones(6))),
    ("memory_bytes", lambda: tt.linear_cross_entropy(torch.ones(3, 8), torch.ones(7, 8), _targets(), memory_bytes=-1)),
    ("target", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 8), torch.tensor([1, 2]))),
    ("weight", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 9), _targets())),
    ("weight", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 8).bfloat16(), _targets())),
    ("dtype", lambda: tt.linear_log_probs(torch.ones(3, 8).half(), torch.ones(7, 8).half(), _targets())),
    ("temperature", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 8), _targets(), temperature=0.0)),
    ("temperature", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 8), _targets(), temperature=NAN)),
    ("softcap", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 8), _targets(), softcap=-1.0)),
    ("memory_bytes", lambda: tt.linear_log_probs(torch.ones(3, 8), torch.ones(7, 8), _targets(), memory_bytes=-1)),
    ("weight", lambda: tt.rms_norm(torch.ones(3, 8), None, torch.ones(7))),
    ("weight", lambda: tt.rms_norm(torch.ones(3, 8), None, torch.ones(8).half())),
    ("eps", lambda: tt.rms_norm(torch.ones(3, 8), None, None, -1.0)),
    ("eps", lambda: tt.rms_norm(torch.ones(3, 8), None, None, NAN)),
    ("w", lambda: tt.layer_norm(torch.ones(3, 8), torch.ones(7), torch.ones(8))),
    ("eps", lambda: tt.layer_norm(torch.ones(3, 8), torch.ones(8), torch.ones(8), epsilon=1.0)),
    ("k has", lambda: tt.attention(_q(), _q(dim=8), _q())),
    ("v has", lambda: tt.attention(_q(), _q(), _q(seq=4))),
    ("q has", lambda: tt.attention(_q()[0], _q()[0], _q()[0])),
    ("k is", lambda: tt.attention(_q(), _q(dtype=torch.float16), _q())),
    ("heads", lambda: tt.attention(_q(heads=3), _q(), _q())),
    ("head_dim", lambda: tt.attention(_q(dim=12), _q(dim=12), _q(dim=12))),
    ("head_dim", lambda: tt.attention(_q(dim=264), _q(dim=264), _q(dim=264))),
    ("layout", lambda: tt.attention(_q(), _q(), _q(), layout="sbhd")),
    ("causal", lambda: tt.attention(_q(), _q(), _q(), causal="left")),
    ("window", lambda: tt.attention(_q(), _q(), _q(), window=(-2, 1))),
    ("softcap", lambda: tt.attention(_q(), _q(), _q(), softcap=-1.0)),
    ("scale", lambda: tt.attention(_q(), _q(), _q(), scale=NAN)),
    ("scale", lambda: tt.attention(_q(), _q(), _q(), scale=-1.0)),
    ("dropout", lambda: tt.attention(_q(), _q(), _q(), dropout=1.5)),
    ("dropout", lambda: tt.attention(_q(), _q(), _q(), dropout=NAN)),
    ("rng_state", lambda: tt.attention(_q(), _q(), _q(), dropout=0.5, rng_state=torch.zeros(3, dtype=torch.int64))),
    ("alibi_slopes", lambda: tt.attention(_q(), _q(), _q(), alibi_slopes=torch.ones(3))),
    ("alibi_slopes", lambda: tt.attention(_q(), _q(), _q(), alibi_slopes=torch.ones(2).half())),
    ("sinks", lambda: tt.attention(_q(), _q(), _q(), sinks=torch.ones(2, dtype=torch.float64))),
    ("cu_seqlens_q", lambda: tt.attention_varlen(_packed(), _packed(), _packed(), _starts(torch.int64), _starts(), 3, 3)),
    ("cu_seqlens_kv", lambda: tt.attention_varlen(_packed(), _packed(), _packed(), _starts(), _starts()[:2], 3, 3)),
    ("cu_seqlens", lambda: tt.attention_varlen(_packed(), _packed(), _packed(), _starts()[:0], _starts()[:0], 3, 3)),
    ("seq_q", lambda: tt.attention_varlen(_packed(), _packed(), _packed(), _starts(), _starts(), -1, 3)),
    ("v has", lambda: tt.attention_varlen(_packed(), _packed(), _packed()[:4], _starts(), _starts(), 3, 3)),
    ("q has", lambda: tt.attention_varlen(_q(), _packed(), _packed(), _starts(), _starts(), 3, 3)),
    ("scale", lambda: tt.attention_varlen(_packed(), _packed(), _packed(), _starts(), _starts(), 3, 3, scale=NAN)),
]
COUNT = len(INVALID)


def run(seed: int) -> None:
    import re

    named, call = INVALID[seed]
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            try:
                call()
            except (ValueError, TypeError, NotImplementedError, IndexError, RuntimeError) as error:
                assert re.search(named, str(error)), f"the error does not name {named}: {error}"
            else:
                raise AssertionError(f"no error names {named}")
