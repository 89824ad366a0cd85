"""Calls of public programs that need no GPU, as captures: what no GPU was at hand for.

usage: python3 tests/studies/record_cpu.py OUT gdn2 | conv_ssd_norm | mamba3_mimo CHECKOUT
  gdn2           flash-linear-attention's fused_recurrent_gdn2, its Triton kernel run by Triton's interpreter. The interpreter drops bits where a GPU
                 rounds to the nearest bf16; that one conversion is put right here.
  conv_ssd_norm  transformers' Mamba2Mixer between its projections, in PyTorch, by the referee's adapter
  mamba3_mimo    state-spaces/mamba's own recurrence in PyTorch (tests/ops/tilelang/test_mamba3_mimo.py of the CHECKOUT): its kernels are TileLang
Needs torch, safetensors, and flash-linear-attention, transformers, or einops and pytest.
"""
import importlib.util
import json
import math
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"
import torch
from safetensors.torch import save_file

BF16 = torch.bfloat16


def save(path, op, contract, producer, inputs, outputs, params=None):
    tensors = {"in." + k: v.contiguous() for k, v in inputs.items()} | {"out." + k: v.detach().contiguous() for k, v in outputs.items()}
    save_file(tensors, path, metadata={"etalon.op": op, "etalon.params": json.dumps(params or {}), "etalon.producer": producer,
                                       "etalon.device": "CPU", "etalon.contract": contract})


def to_nearest():
    import numpy
    import triton.language as tl
    import triton.runtime.interpreter as interpreter
    own = interpreter._convert_float

    def convert(x, source, target, rounding):
        if (source, target) != (tl.float32, tl.bfloat16):
            return own(x, source, target, rounding)
        wide = torch.from_numpy(numpy.ascontiguousarray(x).view(numpy.float32).copy())
        return wide.to(BF16).view(torch.int16).numpy().view(numpy.uint16).reshape(x.shape)
    interpreter._convert_float = convert


def gdn2(path):
    import fla
    import triton
    from fla.ops.gdn2 import fused_recurrent_gdn2
    to_nearest()
    T, H, K, V = 50, 2, 32, 16
    unit = lambda x: torch.nn.functional.normalize(x, dim=-1).to(BF16)
    t = {"q": unit(torch.randn(T, H, K)), "k": unit(torch.randn(T, H, K)), "v": torch.randn(T, H, V).to(BF16),
         "w": torch.sigmoid(torch.randn(T, H, V)).to(BF16), "g": -torch.nn.functional.softplus(torch.randn(T, H, K) - 3),
         "b": torch.sigmoid(torch.randn(T, H, K)).to(BF16)}
    state = 0.3 * torch.randn(1, H, K, V)
    o, final = fused_recurrent_gdn2(**{k: v[None] for k, v in t.items()}, initial_state=state, output_final_state=True)
    save(path, "gdn2", "f32", "flash-linear-attention %s fused_recurrent_gdn2 by the interpreter of Triton %s" % (fla.__version__, triton.__version__),
         t | {"initial_state": state}, {"o": o[0], "final_state": final})


def conv_ssd_norm(path):
    import transformers
    sys.path.insert(0, "python")
    from referee import inputs
    from referee.libraries import transformers_
    t, p = inputs.chain("cpu", T=70, H=2, P=16, M=32)
    out = transformers_.mixer(BF16)(t, p)
    save(path, "conv_ssd_norm", "parts_bf16", "transformers %s Mamba2Mixer between its projections, bf16, PyTorch %s" % (transformers.__version__, torch.__version__), t, out, p)


def mamba3_mimo(path, checkout):
    spec = importlib.util.spec_from_file_location("reference", os.path.join(checkout, "tests/ops/tilelang/test_mamba3_mimo.py"))
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    T, H, R, Hq, K, V, A = 20, 2, 4, 1, 32, 16, 8
    t = {"q": torch.randn(T, R, Hq, K), "k": torch.randn(T, R, Hq, K), "v": torch.randn(T, H, V), "adt": -0.4 * torch.rand(T, H), "dt": 0.01 + 0.29 * torch.rand(T, H),
         "trap": torch.randn(T, H), "q_bias": 1 + 0.3 * torch.randn(H, R, K), "k_bias": 1 + 0.3 * torch.randn(H, R, K), "angles": torch.randn(T, H, A),
         "mimo_v": 0.25 + 0.3 * torch.randn(H, R, V), "mimo_o": 0.25 + 0.3 * torch.randn(H, R, V), "D": torch.randn(H), "z": torch.randn(T, H, V), "mimo_z": 1 + 0.3 * torch.randn(H, R, V)}
    batch = lambda x: x[None]
    along = lambda x: x.T[None]
    y, (angle, state, k, _) = reference.mamba3_MIMO_step_ref(
        batch(t["q"]), batch(t["k"]), batch(t["v"]), along(t["adt"]), along(t["dt"]), along(t["trap"]), t["q_bias"], t["k_bias"], batch(t["angles"]),
        t["mimo_v"], t["mimo_o"], t["D"], batch(t["z"]), t["mimo_z"])
    save(path, "mamba3_mimo", "f32", "mamba_ssm e9594ce mamba3_MIMO_step_ref of its tests, PyTorch %s" % torch.__version__, t,
         {"y": y[0], "final_state": state, "final_angle": torch.remainder(angle, 2 * math.pi), "final_k": k})


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with torch.no_grad():
        {"gdn2": gdn2, "conv_ssd_norm": conv_ssd_norm, "mamba3_mimo": mamba3_mimo}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
