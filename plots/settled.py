"""Two public issues, as far as roundings go: what these do to inputs like those of the reports, as the tables of docs/ops.

usage: ETALON=PROGRAM python3 plots/settled.py [mamba] [attention]
  mamba      state-spaces/mamba#1017: inputs as its tests/ops/triton/test_mamba3_siso.py draws them, and its measure of the error
  attention  Dao-AILab/flash-attention#2716: the width of its heads, standard normal inputs, plots/e4m3.op
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

ETALON = os.environ.get("ETALON", "build/etalon")


def etalon(*arguments):
    subprocess.run([ETALON, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def output(path, name):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        t = json.loads(f.read(size))["out." + name]
        f.seek(8 + size + t["data_offsets"][0])
        data = f.read(t["data_offsets"][1] - t["data_offsets"][0])
    code, width = {"F64": ("d", 8), "F32": ("f", 4)}[t["dtype"]]
    return struct.unpack("<%d%s" % (len(data) // width, code), data)


class Drawn:
    """Inputs of a case that is added to an op's file."""

    def __init__(self, folder, text, case, seed=1):
        self.op, self.inputs, self.answer = (os.path.join(folder, name) for name in ("case.op", "in.safetensors", "out.safetensors"))
        with open(self.op, "w") as f:
            f.write(text + "case settled: " + case + "\n")
        etalon("inputs", text.split()[1], "--op", self.op, "--case", "settled", "--seed", seed, "-o", self.inputs)

    def ref(self, name, *how, round=()):
        etalon("ref", self.inputs, "--op", self.op, *how, *(word for site in round for word in ("--round", site)), "-o", self.answer)
        return output(self.answer, name)


def rms(got, exact):
    return (sum((a - b) ** 2 for a, b in zip(got, exact)) / sum(b * b for b in exact)) ** 0.5


def percentile(got, exact):
    """The 95th of |error| / |y| where |y| is 0.01 or more, as the repository's tests take it."""
    error = sorted(abs(a - b) / (abs(b) + 1e-6) for a, b in zip(got, exact) if abs(b) >= 1e-2)
    return error[-(-len(error) * 95 // 100) - 1]


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def heading(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def mamba(folder):
    angles, operands = "angle=bf16 angle_input=bf16", "q_operand k_operand own_products attention state_operand v_decayed"
    tf32 = " ".join(site + "=tf32_rz" for site in operands.split())
    with open("ref/ops/mamba3.op") as f:
        text = f.read().replace("log_a = adt[t, h]\n", "log_a = adt[t, h] * dt[t, h]\n")        # a decay of -uniform(1, 16) dt
    case = ("T = 256, N = 1, H = 1, Hq = 1, Dk = 64, Dv = 64, A = 16, q = f32 normal(0, 1), k = f32 normal(0, 1), v = f32 normal(0, 1), "
            "adt = f32 uniform(-16, -1), dt = f32 exp(uniform(-6.907755, -2.302585)), trap = f32 uniform(0, 1), q_bias = f32 normal(0, 1), "
            "k_bias = f32 normal(0, 1), angles = f32 normal(0, 1), y = f32, final_state = f32")
    heading("rounded", "95th percentile", "relative rms", "largest", "mean of abs(error)")
    figures = {}
    for seed in range(1, 5):
        c = Drawn(folder, text, case, seed)
        exact = c.ref("y")
        for name, sites in (("angles to bf16 after their sum", "angle=bf16"), ("and as they are loaded", angles), ("and trap", angles + " trap_input=bf16"),
                            ("and operands of products to TF32", angles + " trap_input=bf16 " + tf32), ("trap alone", "trap_input=bf16"),
                            ("operands alone", tf32), ("nothing, in float32", "")):
            y = c.ref("y", "--form", "chunk", "--arith", "f32", round=sites.split())
            error = [abs(a - b) for a, b in zip(y, exact)]
            figures.setdefault(name, []).append((percentile(y, exact), rms(y, exact), max(error), sum(error) / len(error)))
    for name, of in figures.items():
        row(name, *("%.2g to %.2g" % (min(f), max(f)) for f in zip(*of)))


def attention(folder):
    with open("plots/e4m3.op") as f:
        text = f.read()
    heading("keys", "e5m2", "e4m3", "e4m3, clamped", "roundings alone", "clamped to e5m2", "e4m3, P times 2^4")
    for keys in (512, 1024, 2048, 4096, 8192):
        def error(kind, offset, stale, largest, fill, exact=None):
            c = Drawn(folder, text, "T = 32, S = %d, D = 128, offset = %d, stale = %d, largest = %g, fill = %d, q = f32 normal(0, 1), k = f32 normal(0, 1), "
                      "v = f32 normal(0, 1), o = f32" % (keys, offset, stale, largest, fill))
            if not kind:
                return c.ref("o")
            return rms(c.ref("o", "--arith", "f64", "--chunk", "128", round=[site + "=" + kind for site in ("q8", "k8", "v8", "p8")]), exact)
        exact = error(None, 8, 0, 1e30, 80)
        wide, right, clamped, mended = (error(*how, exact) for how in (("e5m2", 8, 4, 57344, 10000), ("e4m3", 8, 0, 448, 80), ("e4m3", 8, 4, 448, 80), ("e4m3", 4, 4, 448, 80)))
        row(str(keys), *("%.3f" % x for x in (wide, right, clamped)), "%.1f %% less" % (100 - 100 * right / clamped), "%.2f" % (clamped / wide), "%.3f" % mended)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        for name in sys.argv[1:] or ("mamba", "attention"):
            {"mamba": mamba, "attention": attention}[name](work)
            print()
