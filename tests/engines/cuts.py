"""Correct engines: which places round, as 22 real ones have them, and at random.

CUTS: name -> (roundings, flags). drawn(SEED): a random cut."""

import random


def places(text, to="b"):
    return {name: to for name in text.split()}


def without(cut, text):
    return {name: to for name, to in cut.items() if name not in text.split()}


PROJECTIONS = "qkv z a b q k v mixed gate up down "
MIXTURE = "router expert running experts shared_logit shared shared_gate mlp "
STREAM = "residual hidden norm.y "
CUTS = {"f32": ({}, ()), "f32_chunk": ({"delta": "chunk"}, ())}

# transformers, operator by operator; the delta rule in float32, in chunks
EAGER = places(
    PROJECTIONS + STREAM + MIXTURE + "conv conv_out beta o gnorm.xhat gnorm.weighted gnorm.y qknorm.y "
    "cos_sin rope_prod turned scores scaled softmax attention sigmoid gated silu product logits route"
) | {"delta": "chunk"}
CUTS["hf_eager"] = (EAGER, ())
CUTS["hf_eager_token"] = (EAGER | {"delta": "token"}, ())
# older transformers: the l2 norm of q and k in bf16, operator by operator
CUTS["hf_eager_l2bf16"] = (EAGER | places("l2 l2sum l2sq"), ())
# with flash-linear-attention's kernels: convolution fused with SiLU, bf16 operands, the gated norm fused
FLA = without(EAGER, "conv gnorm.xhat gnorm.weighted") | {"delta": "chunkb", "l2": "b"}
CUTS["hf_fla"] = (FLA, ())
SDPA = without(EAGER, "scores scaled softmax") | {"weights": "b"}
CUTS["hf_sdpa"] = (SDPA, ("flash",))
# vLLM: fused norms, chunked kernels, flash attention with P in bf16, rope in one kernel
VLLM = places(
    PROJECTIONS + STREAM + "conv_out l2 beta o gnorm.y qknorm.y cos_sin turned weights attention sigmoid "
    "gated silu product logits router expert experts shared_logit shared_gate shared mlp"
) | {"delta": "chunkb"}
CUTS["vllm"] = (VLLM, ("flash",))
CUTS["vllm_beta32"] = (without(VLLM, "beta silu"), ("flash",))
CUTS["vllm_token"] = (VLLM | {"delta": "token"}, ("flash",))
# SGLang: the fused add and norm takes the sum before it is rounded; gates fused in float32
SGLANG = places(
    PROJECTIONS + STREAM + "conv_out l2 o gnorm.y qknorm.y turned weights attention gated product "
    "logits experts shared mlp"
) | {"delta": "chunkb"}
CUTS["sglang"] = (SGLANG, ("flash", "unrounded_norm"))
CUTS["sglang_roundnorm"] = (SGLANG, ("flash",))
# TensorRT: results of products stay in the epilogue where it is fused
TRT = places(
    "qkv q k v z a b " + STREAM + "conv_out o gnorm.y turned weights gated product logits"
) | {"delta": "token"}
CUTS["trt"] = (TRT, ("flash",))
CUTS["trt_f16"] = ({name: "h" if to == "b" else to for name, to in TRT.items()}, ("flash",))
# llama.cpp: activations in float32, operands of products rounded, keys and values in float16
CUTS["llama_bf16"] = ({"op_in": "b"} | places("kcache vcache qcache", "h"), ())
CUTS["llama_f32op"] = (places("kcache vcache", "h"), ())
# the residual stream in float32
CUTS["res32"] = (without(SDPA, "residual hidden mixed down") | {"delta": "token"}, ("flash",))
CUTS["vllm_res32"] = (without(VLLM, "residual hidden"), ("flash",))
CUTS["eager_f16"] = ({name: "h" if to == "b" else to for name, to in EAGER.items()}, ())
CUTS["logits32"] = (without(EAGER, "logits"), ())
CUTS["etalonlike"] = (
    places(STREAM + "qkv z conv_out q k v turned attention gated gate up product o gnorm.y logits"),
    (),
)
CUTS["state_bf16"] = (VLLM | {"delta": "token", "state": "b"}, ("flash",))

ALL = (
    "mixed qkv z a b q k v gate up down norm.xhat norm.y conv conv_out l2 g beta o gnorm.xhat gnorm.weighted "
    "gnorm.silu gnorm.y qknorm.xhat qknorm.y cos_sin turned softmax attention sigmoid gated silu product "
    "router probability route expert experts shared shared_gate logits"
).split()


def drawn(seed):
    r = random.Random(seed)
    cut = {name: "b" for name in ALL if r.random() < 0.5} | places(STREAM)
    cut["delta"] = r.choice(["token", "chunk", "chunkb"])
    flags = tuple(x for x in ("flash",) if r.random() < 0.5)
    if flags and "softmax" in cut:
        cut = without(cut, "softmax") | {"weights": "b"}
    return cut, flags


for i in range(12):
    CUTS[f"drawn{i}"] = drawn(100 + i)
