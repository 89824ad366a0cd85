# What Python programs do: prints the median seconds of `step` (mpmath at 106 bits) or `compare` (NumPy, two arrays of
# 2^26 float32: the figures of `etalon diff`). Any error: nothing, and the peer is missing.
import statistics
import sys
import time


def median(run, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def step():
    import mpmath
    mpmath.mp.prec = 106
    n = 128
    draw = lambda *shape: mpmath.matrix([[mpmath.mpf(((i * shape[1] + j) * 2654435761 % 65536) / 65536 - 0.5) / 7
                                          for j in range(shape[1])] for i in range(shape[0])])
    state = [draw(n, n)]
    k, q, v = draw(n, 1), draw(n, 1), draw(n, 1)

    def run():
        s = state[0] * mpmath.mpf(0.97)
        u = (v - s.T * k) * mpmath.mpf(0.3)
        state[0] = s + k * u.T
        return state[0].T * q
    return median(run, 3)


def compare():
    import numpy as np
    n = 1 << 26
    a = np.linspace(1, 2, n, dtype=np.float32)
    b = a * np.float32(1 + 2 ** -12)

    def run():
        d = b.astype(np.float64) - a
        m = np.maximum(np.abs(a), np.abs(b))
        size = np.abs(d)
        return (size.max(), (size / m).max(), (size / np.spacing(m)).max(), np.sqrt(np.mean(d * d)), np.sqrt(np.mean(a.astype(np.float64) ** 2)),
                d.mean(), np.isnan(a).sum(), np.isnan(b).sum(), (a != b).sum())
    return median(run, 3)


print(step() if sys.argv[1] == "step" else compare())
