"""What several libraries' adapters share: tables of angles, gradients."""
import torch


def frequencies(t, p):
    """positions times theta^(-2i/rotary_dim), [T, rotary_dim / 2], in float64."""
    d = int(p["rotary_dim"])
    at = torch.arange(0, d, 2, device=t["x"].device, dtype=torch.float64)
    return torch.outer(t["positions"].double(), p["theta"] ** (-at / d))


def cos_sin(t, p):
    """Two tables [T, rotary_dim / 2] in float32, each entry rounded once: the table is the caller's, not the kernel's."""
    a = frequencies(t, p)
    return a.cos().float(), a.sin().float()


def narrow(table, x):
    """The table in x's type."""
    return table.to(x.dtype)


def gradients(t, names, outer, forward):
    """dNAME of each input in `names` that t has; `outer` are the gradients of forward's outputs."""
    leaves = [t[n].detach().clone().requires_grad_() if n in t else None for n in names]
    outputs = forward(*leaves)
    torch.autograd.backward(list(outputs), [t[n] for n in outer])
    return {"d" + n: x.grad for n, x in zip(names, leaves) if x is not None}
