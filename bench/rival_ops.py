# The ops as eager PyTorch code has them, for rivals.py: the roundings between operations are those that such code makes.
import torch
import torch.nn.functional as F


def rmsnorm(x, weight, eps, offset, residual=None, gate=None):
    if residual is not None:
        x = x + residual
    z = x.float()
    z = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + eps) * (offset + weight.float())
    if gate is not None:
        z = z * F.silu(gate.float())
    y = z.to(x.dtype)
    return (y,) if residual is None else (y, x)


def rmsnorm_fp8(x, weight, eps, offset, min_scale, residual):
    z, x = rmsnorm(x, weight, eps, offset, residual)
    z = z.float()
    scale = (z.abs().amax(-1) / 448).clamp(min=min_scale)
    return (z / scale[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn), scale, x


def angles(positions, rotary_dim, theta, dtype):
    turns = positions.double()[:, None] * theta ** (-torch.arange(0, rotary_dim, 2, device=positions.device).double() / rotary_dim)
    turns = torch.cat((turns, turns), -1)[:, None]
    return turns.cos().to(dtype), turns.sin().to(dtype)


def turn(x, cos, sin):
    P = cos.shape[-1] // 2
    head, rest = x[..., :2 * P], x[..., 2 * P:]
    return torch.cat((head * cos + torch.cat((-head[..., P:], head[..., :P]), -1) * sin, rest), -1)


def heads(qg, k, q_weight, k_weight, eps, cos, sin):
    q, gate = qg.chunk(2, -1)
    return (turn(rmsnorm(q, q_weight, eps, 1)[0], cos, sin), turn(rmsnorm(k, k_weight, eps, 1)[0], cos, sin),
            gate.contiguous())


def gated(x, gate):
    return (x * gate.sigmoid(),)


def gated_expert(x, hidden, gate_weight, addend):
    return (torch.sigmoid(hidden @ gate_weight)[:, None] * x + addend,)


def convolution(x, weight, state):
    window = torch.cat((state[0], x.T), -1)
    y = F.conv1d(window[None], weight[:, None], groups=weight.shape[0])[0]
    return F.silu(y).T.contiguous(), window[None, :, -(weight.shape[1] - 1):].contiguous()


def newton_schulz(X, coefficients):
    for a, b, c in coefficients:
        A = X @ X.T
        X = torch.addmm(X, torch.addmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return (X,)


def unit(x, group):
    return (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)).repeat_interleave(group, 1)


def gates(a, b, A_log, dt_bias):
    return -A_log.float().exp() * F.softplus(a.float() + dt_bias.float()), b.float().sigmoid()


def chunks(q, k, v, a, b, A_log, dt_bias, S, C=64):
    """The chunked delta rule in float32; q, k [T,Hk,D], v [T,Hv,D], S [Hv,D,D]; T a multiple of C."""
    group, D = v.shape[1] // q.shape[1], q.shape[-1]
    g, beta = gates(a, b, A_log, dt_bias)
    cut = lambda x: x.reshape(-1, C, *x.shape[1:]).transpose(1, 2).contiguous()       # [T/C,Hv,C,...]
    q, k, v, g, beta = cut(unit(q.float(), group) * D ** -0.5), cut(unit(k.float(), group)), cut(v.float()), cut(g), cut(beta)
    g = g.cumsum(-1)
    decay = (g[..., :, None] - g[..., None, :]).tril().exp().tril()
    below = (k * beta[..., None] @ k.transpose(-1, -2) * decay).tril(-1)
    one = torch.eye(C, device=q.device)
    inverse = torch.linalg.solve_triangular(below + one, one.expand_as(below), upper=False, unitriangular=True)
    u, w = inverse @ (v * beta[..., None]), inverse @ (k * (beta * g.exp())[..., None])
    scores, out = q @ k.transpose(-1, -2) * decay, []
    for n in range(q.shape[0]):
        new = u[n] - w[n] @ S
        out.append(q[n] * g[n].exp()[..., None] @ S + scores[n] @ new)
        S = S * g[n, :, -1].exp()[:, None, None] + (k[n] * (g[n, :, -1:] - g[n]).exp()[..., None]).transpose(-1, -2) @ new
    return torch.stack(out).transpose(1, 2).reshape(-1, S.shape[0], D).bfloat16(), S


def decode(x, z, a, b, conv_weight, A_log, dt_bias, norm_weight, history, S):
    """A layer's step, its memory in place: history [R,C,3], S [R,Hv,D,D]."""
    Hv, D = S.shape[1], S.shape[2]
    window = torch.cat((history, x[..., None]), -1)
    qkv = F.silu((window.float() * conv_weight).sum(-1))
    history.copy_(window[..., 1:])
    keys = (qkv.shape[-1] - Hv * D) // 2
    q, k, v = qkv.split((keys, keys, Hv * D), -1)
    q, k = (unit(h.reshape(len(x), -1, D), Hv * D // keys) for h in (q, k))
    g, beta = gates(a, b, A_log, dt_bias)
    new = S.float() * g.exp()[..., None, None]
    u = beta[..., None] * (v.reshape(-1, Hv, D) - (new * k[..., None]).sum(-2))
    new = new + k[..., None] * u[..., None, :]
    S.copy_(new)
    o = (new * q[..., None]).sum(-2) * D ** -0.5
    return rmsnorm(o, norm_weight, 1e-6, 0, gate=z)[0].to(x.dtype), S
