"""Implementations that shipped row programs are compared with. A builder takes the program's inputs and returns a call.

TransformerEngine's kernels for PyTorch are a source distribution, which needs its compiled core and a compiler on the machine;
where they are not installed, as where FlashInfer, QuACK or Liger are not, the peer is left out by name. pack_peers.sh packs the
norms of FlashInfer alone; its other functions are then left out. Weights that a peer takes as float32 are converted before
anything is timed.
"""
import importlib

import torch

RMS_EPS, LAYER_EPS = 1e-6, 1e-5


def function_of(module, name):
    return getattr(importlib.import_module(module), name)


def liger(module, name, *arguments, reverse=False):
    """Returns the builder of one of Liger's autograd functions. `reverse`: its results in the other order."""
    def build(*inputs):
        function = function_of("liger_kernel.ops." + module, name)
        if reverse:
            return lambda: function.apply(*inputs, *arguments)[::-1]
        return lambda: function.apply(*inputs, *arguments)
    return build


def quack_rms_norm(x, w):
    function = function_of("quack.rmsnorm", "rmsnorm_fwd")
    return lambda: function(x, w, eps=RMS_EPS)[0]


def quack_layer_norm(x, w, b):
    function, w, b = function_of("quack.rmsnorm", "layernorm_fwd"), w.float(), b.float()
    return lambda: function(x, w, b, eps=LAYER_EPS)


def quack_add_rms_norm(x, r, w):
    function = function_of("quack.rmsnorm", "rmsnorm_fwd")

    def call():
        y, h, _ = function(x, w, residual=r, eps=RMS_EPS)
        return h, y
    return call


def quack_softmax(x):
    function = function_of("quack.softmax", "softmax_fwd")
    return lambda: function(x)


def quack_cross_entropy(x, targets):
    function, targets = function_of("quack.cross_entropy", "cross_entropy_fwd"), targets.long()
    return lambda: function(x, targets, return_lse=True)


def quack_topk_gate(x):
    """Its values carry their columns in their lowest bits, so near ones may be in another order."""
    function = function_of("quack.topk", "topk_fwd")
    return lambda: function(x, 8, softmax=True)


def quack_rms_norm_gradient(x, w, dy):
    """The gradient alone. It reads rstd of the forward pass, which the program computes again."""
    rstd = function_of("quack.rmsnorm", "rmsnorm_fwd")(x, w, eps=RMS_EPS, store_rstd=True)[2]
    function = function_of("quack.rmsnorm", "rmsnorm_bwd")
    return lambda: function(x, w, dy, rstd)[:2]


def quack_layer_norm_gradient(x, w, dy):
    """The gradient alone. It reads rstd and mean of the forward pass, which the program computes again."""
    w32 = w.float()
    _, rstd, mean = function_of("quack.rmsnorm", "layernorm_fwd")(x, w32, None, eps=LAYER_EPS, return_rstd=True,
                                                                  return_mean=True)
    function = function_of("quack.rmsnorm", "layernorm_bwd")
    return lambda: function(x, w32, dy, rstd, mean)


def flashinfer_rms_norm(x, w):
    function, y = function_of("flashinfer.norm", "rmsnorm"), torch.empty_like(x)
    return lambda: function(x, w, RMS_EPS, out=y)


def flashinfer_rms_norm_unit_offset(x, w):
    function, y = function_of("flashinfer.norm", "gemma_rmsnorm"), torch.empty_like(x)
    return lambda: function(x, w, RMS_EPS, out=y)


def flashinfer_layer_norm(x, w, b):
    function, w, b = function_of("flashinfer.norm", "layernorm"), w.float(), b.float()
    return lambda: function(x, w, b, LAYER_EPS)


def flashinfer_add_rms_norm(x, r, w):
    """Works in place, on copies. The sum grows from launch to launch; the first result is the one that is compared."""
    function, x, r = function_of("flashinfer.norm", "fused_add_rmsnorm"), x.clone(), r.clone()

    def call():
        function(x, r, w, RMS_EPS)
        return r, x
    return call


def flashinfer_swiglu(gate, up):
    """Reads gate and up side by side in one array."""
    function, both, y = function_of("flashinfer", "silu_and_mul"), torch.cat([gate, up], -1), torch.empty_like(gate)
    return lambda: function(both, out=y)


def flashinfer_softmax(x):
    function = function_of("flashinfer.sampling", "softmax")
    return (lambda: function(x)) if x.dtype == torch.float32 else None  # its results are float32


def engine_norm(name):
    """Returns the builder of one of TransformerEngine's modules, in inference."""
    def build(x, w, *b):
        norm = function_of("transformer_engine.pytorch", name)(x.shape[-1], eps=LAYER_EPS if b else RMS_EPS,
                                                               dtype=x.dtype, device=x.device)
        with torch.no_grad():
            norm.weight.copy_(w)
            if b:
                norm.bias.copy_(b[0])

        def call():
            with torch.no_grad():
                return norm(x)
        return call
    return build


# peer: {program: builder}. A builder may return None for a dtype that the peer lacks.
BUILDERS = {
    "liger": {"rms_norm": liger("rms_norm", "LigerRMSNormFunction", RMS_EPS),
              "rms_norm_unit_offset": liger("rms_norm", "LigerRMSNormFunction", RMS_EPS, 1.0),
              "layer_norm": liger("layer_norm", "LigerLayerNormFunction", LAYER_EPS),
              "add_rms_norm": liger("fused_add_rms_norm", "LigerFusedAddRMSNormFunction", RMS_EPS, reverse=True),
              "swiglu": liger("swiglu", "LigerSiLUMulFunction"), "geglu": liger("geglu", "LigerGELUMulFunction"),
              "softmax": liger("softmax", "LigerSoftmaxFunction")},
    "quack": {"rms_norm": quack_rms_norm, "layer_norm": quack_layer_norm, "add_rms_norm": quack_add_rms_norm,
              "softmax": quack_softmax, "cross_entropy": quack_cross_entropy, "topk_gate": quack_topk_gate,
              "rms_norm_gradient": quack_rms_norm_gradient, "layer_norm_gradient": quack_layer_norm_gradient},
    "flashinfer": {"rms_norm": flashinfer_rms_norm, "rms_norm_unit_offset": flashinfer_rms_norm_unit_offset,
                   "layer_norm": flashinfer_layer_norm, "add_rms_norm": flashinfer_add_rms_norm,
                   "swiglu": flashinfer_swiglu, "softmax": flashinfer_softmax},
    "transformer_engine": {"rms_norm": engine_norm("RMSNorm"), "layer_norm": engine_norm("LayerNorm")},
}
NEEDS = {"liger": "liger_kernel.ops.softmax", "quack": "quack.rmsnorm", "flashinfer": "flashinfer.norm",
         "transformer_engine": "transformer_engine.pytorch"}
