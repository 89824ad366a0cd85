"""FlashQLA: kernels in TileLang."""
import torch

from ..kernel import kernel, need, take_only
from ..tables import gradients

LIB = "flash-qla"


@kernel(LIB, "chunk_gated_delta_rule", "gated_delta_rule", "bf16_operands", width=128, l2norm=True)
def forward(t, p):
    import flash_qla
    take_only(t, "q", "k", "v", "g", "beta", "initial_state", "cu_seqlens")
    need(p.get("gated", True) and t["q"].shape[2] == t["v"].shape[2] == 128 and t["q"].dtype == torch.bfloat16, "heads of 128 in bf16")
    cuts = t["cu_seqlens"].long() if "cu_seqlens" in t else None
    o, s = flash_qla.chunk_gated_delta_rule(
        *(t[n][None] for n in ("q", "k", "v", "g", "beta")), scale=p.get("scale"), initial_state=t.get("initial_state"),
        output_final_state=True, use_qk_l2norm_in_kernel=bool(p.get("qk_l2norm")), cu_seqlens=cuts)[:2]
    return {"o": o[0], "final_state": s}


@kernel(LIB, "chunk_gated_delta_rule, backward", "gated_delta_rule.backward", "bf16_operands", width=128)
def backward(t, p):
    import flash_qla
    return gradients(t, ("q", "k", "v", "g", "beta", "initial_state"), ("do", "dfinal_state"), lambda q, k, v, g, b, s: (
        lambda o, e: (o[0], e))(*flash_qla.chunk_gated_delta_rule(
            q[None], k[None], v[None], g[None], b[None], initial_state=s, output_final_state=True)[:2]))
