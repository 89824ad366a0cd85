"""Calls that cross GPUs, as captures: python -m referee.ranks OUT [RANKS]

One process a rank. Each call is written with all ranks' inputs and outputs, stacked on an axis of ranks, for the ops allreduce_norm,
allreduce_norm_fp8 and row_parallel: NCCL's collectives, PyTorch's kernels over symmetric memory, FlashInfer's all-reduces where it is
installed; the same products on one rank; and the faults that public kernels had. NVLink multicast stays off. A call that cannot run
is said, and the others go on. Where there are fewer GPUs than ranks, ranks share one: NCCL then takes them for ranks on hosts of
their own.
"""
import os
import sys
import traceback

os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")

import torch                                                    # noqa: E402
import torch.distributed as dist                                # noqa: E402
import torch.multiprocessing as mp                              # noqa: E402

from . import capture                                           # noqa: E402

BF16, EPS = torch.bfloat16, 1e-6
ROWS, COLUMNS, INNER = 48, 512, 512                             # of a sum; INNER: of a product, all ranks together


def drawn(seed, *shape, dtype=BF16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).cuda()


class Calls:
    """The calls of one rank. A method that is a call returns (op, inputs that all ranks have, own inputs, parameters, own outputs)."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks, self.group = rank, ranks, dist.group.WORLD
        self.part, self.part_f32 = drawn(10 + rank, ROWS, COLUMNS), drawn(20 + rank, ROWS, COLUMNS, dtype=torch.float32)
        self.residual, self.weight = drawn(30, ROWS, COLUMNS), (1 + 0.1 * drawn(31, COLUMNS)).to(BF16)
        self.x, self.w = drawn(40, ROWS, INNER), drawn(41, COLUMNS, INNER) * INNER ** -0.5
        self.columns = slice(rank * INNER // ranks, (rank + 1) * INNER // ranks)

    # ---- sums ----

    def nccl(self, part):
        total = part.clone()
        dist.all_reduce(total)
        return total

    def shared(self, part):
        import torch.distributed._symmetric_memory as symm
        t = symm.empty(*part.shape, dtype=part.dtype, device="cuda")
        symm.rendezvous(t, self.group.group_name)
        t.copy_(part)
        return t

    def one_shot(self, part):
        return torch.ops.symm_mem.one_shot_all_reduce(self.shared(part), "sum", self.group.group_name)

    def two_shot(self, part):
        return torch.ops.symm_mem.two_shot_all_reduce_(self.shared(part), "sum", self.group.group_name).clone()

    def vllm(self, part):
        """vLLM's custom all-reduce, as FlashInfer ships it."""
        from flashinfer import comm
        from flashinfer.comm import vllm_ar
        size = 8 << 20
        meta = comm.create_shared_buffer(vllm_ar.meta_size() + size, group=self.group)
        buffer = comm.create_shared_buffer(size, group=self.group)
        state = torch.empty(size, dtype=torch.uint8, device="cuda")
        handle = vllm_ar.init_custom_ar(meta, state, self.rank, True)
        vllm_ar.register_buffer(handle, buffer)
        total = torch.empty_like(part)
        vllm_ar.all_reduce(handle, part, total, buffer[self.rank], size, 16)
        torch.cuda.synchronize()
        return total

    # ---- all-reduce, residual, norm ----

    def normed(self, total, part=None):
        """What follows the sum in a layer, eager."""
        u = total + self.residual.to(total.dtype)
        y = torch.nn.functional.rms_norm(u, (COLUMNS,), self.weight.to(total.dtype), EPS)
        return self.of_norm(self.part if part is None else part, dict(y=y, residual_out=u))

    def of_norm(self, part, outs):
        same = dict(residual=self.residual.to(part.dtype), weight=self.weight.to(part.dtype))
        return "allreduce_norm", same, dict(x=part), dict(eps=EPS), outs

    def nccl_bf16(self):
        return self.normed(self.nccl(self.part))

    def nccl_f32(self):
        return self.normed(self.nccl(self.part_f32), self.part_f32)

    def nccl_sent_bf16(self):
        return self.normed(self.nccl(self.part_f32.to(BF16)).float(), self.part_f32)

    def torch_one_shot(self):
        return self.normed(self.one_shot(self.part))

    def torch_two_shot(self):
        return self.normed(self.two_shot(self.part))

    def vllm_custom(self):
        return self.normed(self.vllm(self.part))

    def nccl_scattered(self):
        rows = slice(self.rank * ROWS // self.ranks, (self.rank + 1) * ROWS // self.ranks)
        total = torch.empty(ROWS // self.ranks, COLUMNS, dtype=BF16, device="cuda")
        dist.reduce_scatter_tensor(total, self.part)
        u = total + self.residual[rows]
        y, whole = torch.nn.functional.rms_norm(u, (COLUMNS,), self.weight, EPS), torch.empty(ROWS, COLUMNS, dtype=BF16, device="cuda")
        dist.all_gather_into_tensor(whole, y)
        return self.of_norm(self.part, dict(y=whole, shard=u))

    # ---- the faults that public kernels had ----

    def fault_norm_per_shard(self):
        return self.normed(self.part)

    def fault_residual_on_each_rank(self):
        total = self.nccl(self.part + self.residual)
        y = torch.nn.functional.rms_norm(total, (COLUMNS,), self.weight, EPS)
        return self.of_norm(self.part, dict(y=y, residual_out=total))

    def fault_weight_f32_as_bf16(self):
        weight = 1 + 0.1 * drawn(31, COLUMNS, dtype=torch.float32)
        u = self.nccl(self.part) + self.residual
        y = torch.nn.functional.rms_norm(u, (COLUMNS,), weight.view(BF16)[:COLUMNS].contiguous(), EPS)
        return "allreduce_norm", dict(residual=self.residual, weight=weight), dict(x=self.part), dict(eps=EPS), dict(y=y, residual_out=u)

    # ---- FlashInfer's fused kernels ----

    def flashinfer(self, one_shot, f32, pattern, **outs):
        from flashinfer import comm
        handles, workspace = comm.trtllm_create_ipc_workspace_for_all_reduce_fusion(
            self.rank, self.ranks, ROWS, COLUMNS, use_fp32_lamport=False, group=self.group)
        blank = dict(allreduce_out=None, residual_in=self.residual, residual_out=torch.empty_like(self.residual), norm_out=None,
                     quant_out=None, scale_out=None, rms_gamma=self.weight, rms_eps=EPS, scale_factor=None, layout_code=None)
        given = blank | outs
        dist.barrier()
        comm.trtllm_allreduce_fusion(allreduce_in=self.part, world_size=self.ranks, world_rank=self.rank, token_num=ROWS,
                                     hidden_dim=COLUMNS, workspace_ptrs=workspace, launch_with_pdl=False, use_oneshot=one_shot,
                                     trigger_completion_at_end=True, fp32_acc=f32, pattern_code=pattern, **given)
        torch.cuda.synchronize()
        dist.barrier()
        return given

    def flashinfer_norm(self, one_shot, f32):
        from flashinfer.comm import AllReduceFusionPattern
        got = self.flashinfer(one_shot, f32, AllReduceFusionPattern.kARResidualRMSNorm, norm_out=torch.empty_like(self.part))
        return self.of_norm(self.part, dict(y=got["norm_out"], residual_out=got["residual_out"]))

    def flashinfer_one_shot(self):
        return self.flashinfer_norm(True, False)

    def flashinfer_one_shot_f32(self):
        return self.flashinfer_norm(True, True)

    def flashinfer_two_shot(self):
        return self.flashinfer_norm(False, False)

    def flashinfer_fp8(self):
        from flashinfer.comm import AllReduceFusionPattern, QuantizationSFLayout
        scale = torch.tensor([0.0078125 * 0.75], device="cuda")
        quantised = torch.empty(ROWS, COLUMNS, dtype=torch.float8_e4m3fn, device="cuda")
        got = self.flashinfer(True, False, AllReduceFusionPattern.kARResidualRMSNormFP8Quant, quant_out=quantised, scale_factor=scale,
                              layout_code=QuantizationSFLayout.LINEAR)
        same = dict(residual=self.residual, weight=self.weight, given=scale)
        return "allreduce_norm_fp8", same, dict(x=self.part), dict(eps=EPS), dict(y=quantised, residual_out=got["residual_out"])

    # ---- products ----

    def of_product(self, ranks, y, shard=None):
        outs = dict(y=y) if shard is None else dict(shard=shard)
        return "row_parallel", dict(x=self.x, weight=self.w), {}, dict(ranks=ranks), outs

    def product(self):
        return self.x[:, self.columns] @ self.w[:, self.columns].t()

    def two_ranks(self):
        return self.of_product(self.ranks, self.nccl(self.product()))

    def two_ranks_f32(self):
        return self.of_product(self.ranks, self.nccl(self.x[:, self.columns].float() @ self.w[:, self.columns].float().t()))

    def one_rank(self):
        return self.of_product(1, self.x @ self.w.t())

    def one_rank_f32(self):
        return self.of_product(1, self.x.float() @ self.w.float().t())

    def torch_fused(self):
        y = torch.ops.symm_mem.fused_matmul_reduce_scatter(self.x[:, self.columns].contiguous(), self.w[:, self.columns].t().contiguous(),
                                                           "sum", 0, self.group.group_name)
        return self.of_product(self.ranks, None, shard=y)

    def torch_fused_gather(self):
        """Rows gathered, columns of the weight split: no sum crosses ranks. Each rank's call is a product on one rank."""
        rows = slice(self.rank * ROWS // self.ranks, (self.rank + 1) * ROWS // self.ranks)
        mine = slice(self.rank * COLUMNS // self.ranks, (self.rank + 1) * COLUMNS // self.ranks)
        _, (y,) = torch.ops.symm_mem.fused_all_gather_matmul(self.x[rows].contiguous(), [self.w[mine].t().contiguous()], 0,
                                                             self.group.group_name)
        whole = [torch.empty_like(y) for _ in range(self.ranks)]
        dist.all_gather(whole, y)
        return self.of_product(1, torch.cat(whole, 1))


def as_bytes(x):
    """Between processes FP8 travels as what it is stored in."""
    return (x.view(torch.uint8), x.dtype) if x.element_size() == 1 else x


def from_bytes(x):
    return x[0].view(x[1]) if isinstance(x, tuple) else x


def stacked(name, outs, ranks):
    """An output of all ranks: one after the other where each has its own rows, else on an axis of ranks."""
    parts = [from_bytes(o[name]) for o in outs]
    return torch.cat(parts) if name == "shard" else torch.stack(parts[:ranks])


def write(out, name, all, params):
    (op, same, _, _, _), ranks = all[0], params.get("ranks", len(all))
    ins = same | {k: torch.stack([a[2][k] for a in all]) for k in all[0][2]}
    outs = {k: stacked(k, [a[4] for a in all], ranks) for k in all[0][4]}
    version = ".".join(map(str, torch.cuda.nccl.version()))
    producer = f"PyTorch {torch.__version__}, NCCL {version}: {name}"
    if "flashinfer" in name or "vllm" in name:
        import flashinfer
        producer = f"FlashInfer {flashinfer.__version__}: {name}"
    devices = torch.cuda.device_count()
    device = f"{min(devices, len(all))} {torch.cuda.get_device_name()}"
    capture.write(f"{out}/{op}.{name}.safetensors", op, ins, params, outs, producer,
                  device=device if devices >= len(all) else f"{len(all)} ranks on {device}")


NAMES = [n for n, f in vars(Calls).items() if n in (
    "nccl_bf16 nccl_f32 nccl_sent_bf16 torch_one_shot torch_two_shot nccl_scattered fault_norm_per_shard fault_residual_on_each_rank "
    "fault_weight_f32_as_bf16 two_ranks two_ranks_f32 one_rank one_rank_f32 torch_fused torch_fused_gather "
    "flashinfer_one_shot flashinfer_one_shot_f32 flashinfer_two_shot flashinfer_fp8 vllm_custom").split()]


def work(rank, ranks, out, names):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    device = rank % torch.cuda.device_count()
    if torch.cuda.device_count() < ranks:
        os.environ.update(NCCL_HOSTID=f"rank{rank}", NCCL_SOCKET_IFNAME="lo", TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES="1")
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    calls = Calls(rank, ranks)
    for name in names:
        mine, why = None, None
        try:
            op, same, own, params, outs = getattr(calls, name)()
            torch.cuda.synchronize()
            cpu = lambda t: {k: as_bytes(x.detach().cpu()) for k, x in t.items()}
            mine = (op, cpu(same), cpu(own), params, cpu(outs))
        except Exception as e:                                  # a library that is missing, or a kernel that refuses
            why = f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:200]}"
            if os.environ.get("REFEREE_DEBUG"):
                traceback.print_exc()
        all = [None] * ranks
        dist.all_gather_object(all, (mine, why))
        if rank == 0:
            bad = [w for m, w in all if m is None]
            if not bad:
                write(out, name, [m for m, _ in all], mine[3])
            print(f"{name}: {bad[0] if bad else 'recorded'}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    mp.spawn(work, (ranks, sys.argv[1], sys.argv[3:] or NAMES), ranks)
