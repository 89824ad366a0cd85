# The gated delta rule of FlashInfer (kernels for sm_90, in CuTe DSL) and FlashQLA (TileLang), for rivals.py, where they can be
# imported. FlashInfer takes q and k already normed, which is not timed, and decays as numbers, not logarithms; its states are turned.
import functools

import torch


def turned(S):
    return S.transpose(-1, -2).contiguous()


def unit(x):
    return (x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def flashinfer(q, k, v, g, beta, S, cuts, along):
    """Prefill: o [T,Hv,D], states. along: cut along the sequence too, its kernels for few sequences."""
    if along:
        from flashinfer.gdn_kernels.delta_rule_dsl.delta_rule_cp_sm90 import cp_delta_rule_dsl_sm90 as cut_along
    else:
        from flashinfer.gdn_kernels.delta_rule_dsl.delta_rule_sm90 import delta_rule_prefill_dsl_sm90 as prefill
    qn, kn, before, decay, scale = unit(q), unit(k), turned(S), g.exp(), q.shape[-1] ** -0.5
    o, after = torch.empty_like(v), torch.empty_like(before)
    longest = int((cuts[1:] - cuts[:-1]).max())

    def run():
        if along:
            cut_along(o, after, qn, kn, v, decay, beta, cuts, scale, initial_state=before, max_seqlen=longest)
        else:
            prefill(o, after, qn, kn, v, before, decay, beta, cuts, scale)
        return o, after.transpose(-1, -2)

    return run


def flashqla(q, k, v, g, beta, S, cuts, inside):
    """Prefill; inside: it norms q and k itself."""
    from flash_qla import chunk_gated_delta_rule
    if not inside:
        q, k = unit(q), unit(k)
    several = dict(cu_seqlens=cuts) if len(cuts) > 2 else {}

    def run():
        o, after = chunk_gated_delta_rule(q[None], k[None], v[None], g[None], beta[None], initial_state=S, output_final_state=True,
                                          use_qk_l2norm_in_kernel=inside, **several)[:2]
        return o[0], after

    return run


PREFILLS = {
    "FlashInfer": functools.partial(flashinfer, along=False),
    "FlashInfer, cut along the sequence": functools.partial(flashinfer, along=True),
    "FlashQLA": functools.partial(flashqla, inside=True),
    "FlashQLA, q and k normed before": functools.partial(flashqla, inside=False),
}


def decode(t, S):
    """A token of each row by FlashInfer, norms and gates inside; S [R,Hv,Dk,Dv], float32 or bf16, in place, turned: o, and S."""
    q, k, v, a, b = (t[n][:, None] for n in ("q", "k", "v", "a", "b"))
    (R, _, H, D), Hv, scale = q.shape, v.shape[2], q.shape[-1] ** -0.5
    A_log, dt_bias = t["A_log"].float(), t["dt_bias"].float()
    state, o, slots = turned(S), torch.empty_like(v), torch.arange(R, device=v.device, dtype=torch.int32)
    if S.dtype == torch.float32:
        from flashinfer.gdn_kernels.gdn_decode_pretranspose import run_pretranspose_decode

        def run():
            run_pretranspose_decode(state.view(R * Hv, D, D), A_log, a, dt_bias, q, k, v, b, o, R, 1, H, Hv, D, D, scale, True)
            return o[:, 0], state.transpose(-1, -2)
    else:
        from flashinfer.gdn_kernels.gdn_decode_bf16_state import gated_delta_rule

        def run():
            gated_delta_rule(A_log, a, dt_bias, q=q, k=k, v=v, b=b, initial_state_source=state, initial_state_indices=slots,
                             output=o, use_qk_l2norm_in_kernel=True, scale=scale)
            return o[:, 0], state.transpose(-1, -2)

    return run
