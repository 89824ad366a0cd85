"""rotary-embedding-torch: angles and rotation in eager PyTorch."""
import torch

from ..kernel import kernel, need


@kernel("rotary-embedding-torch", "rotate_queries_or_keys", "rope", "f32")
def rotate(t, p):
    from rotary_embedding_torch import RotaryEmbedding
    first, T = int(t["positions"][0]), len(t["positions"])
    need(torch.equal(t["positions"].cpu().long(), torch.arange(first, first + T)), "positions that follow each other")
    p["layout"] = "interleaved"
    r = RotaryEmbedding(dim=int(p["rotary_dim"]), theta=p["theta"], cache_if_possible=False).to(t["x"].device)
    return {"y": r.rotate_queries_or_keys(t["x"].transpose(0, 1), offset=first).transpose(0, 1)}
