"""gram-newton-schulz: Gram Newton-Schulz in float16, by torch's products or quack's symmetric ones."""
from ..kernel import kernel, need

LIB = "gram-newton-schulz"


def gram(kernels):
    def call(t, p):
        from gram_newton_schulz.coefficients import POLAR_EXPRESS_COEFFICIENTS as polar
        from gram_newton_schulz.gram_newton_schulz import GramNewtonSchulz
        need(t["x"].dim() == 2, "one matrix")
        need(not kernels or min(t["x"].shape) >= 256, "quack only from 256 rows on")
        square = t["x"].shape[0] == t["x"].shape[1]
        p.update(algorithm="standard" if square else "gram", coefficients=[list(c) for c in polar], eps=1e-7, iterate_dtype="F16", restarts=[] if square else [2])
        p.pop("eps_kind", None)
        return {"y": GramNewtonSchulz(ns_use_kernels=kernels, compile_kwargs=None)(t["x"].clone())}
    return call


kernel(LIB, "GramNewtonSchulz, torch", "newton_schulz", "f16")(gram(False))
kernel(LIB, "GramNewtonSchulz, quack kernels", "newton_schulz", "f16")(gram(True))
