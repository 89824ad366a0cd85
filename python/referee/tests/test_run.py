"""The whole way on a CPU: a right kernel passes, one with a fault fails, one that raises is said to. Needs torch, safetensors and ETALON."""
import importlib.util
import os
import tempfile
import unittest

READY = os.path.exists(os.environ.get("ETALON", "")) and all(importlib.util.find_spec(m) for m in ("torch", "safetensors", "numpy"))


@unittest.skipUnless(READY, "needs torch, safetensors, numpy and ETALON")
class Judged(unittest.TestCase):
    def capture(self, folder, wrong):
        import torch
        from referee import capture, inputs
        t, p = inputs.norm("test", R=8, D=64, offset=1)
        x = t["x"].double()
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + p["eps"]) * (wrong + t["weight"].double())
        path = f"{folder}/{wrong}.safetensors"
        capture.write(path, "rmsnorm", t, p, dict(y=y.to(torch.bfloat16)), "test")
        return path

    def test_right_and_wrong(self):
        from referee import judge
        with tempfile.TemporaryDirectory() as folder:
            right, wrong = self.capture(folder, 1), self.capture(folder, 0)
            said = judge.check(os.environ["ETALON"], right, True, "f32")
            self.assertEqual(said["verdict"], "pass")
            self.assertLess(judge.figures(said)["share"], 1)
            self.assertLess(judge.relative_error(os.environ["ETALON"], right), 0.02)
            said = judge.check(os.environ["ETALON"], wrong, True, "f32")
            self.assertEqual(said["verdict"], "fail")
            self.assertGreater(judge.figures(said)["share"], 1)
            self.assertGreater(judge.relative_error(os.environ["ETALON"], wrong), 0.5)

    def test_an_output_that_is_no_number_has_no_figures(self):
        import torch
        from referee import capture, judge
        with tempfile.TemporaryDirectory() as folder:
            path = self.capture(folder, 1)
            t, p, outs = capture.read(path)
            outs["y"][3, 5] = float("nan")
            capture.write(path, "rmsnorm", t, p, outs, "test")
            said = judge.check(os.environ["ETALON"], path, True, "f32")
            self.assertEqual(said["verdict"], "fail")
            self.assertEqual(judge.figures(said)["share"], float("inf"))
            self.assertEqual(judge.relative_error(os.environ["ETALON"], path), float("inf"))

    def test_a_figure_that_is_no_number_is_the_worst(self):
        from referee import judge
        rule = lambda value: dict(value=value, limit=2)
        for first, second in (("nan", 1), (None, 1), (1, "nan"), ("inf", 1)):
            out = dict(name="y", not_finite=0, rules=dict(worst=rule(first), rms=rule(second)))
            self.assertEqual(judge.figures(dict(outputs=[out]))["share"], float("inf"), (first, second))
        out = dict(name="y", not_finite=1, rules=dict(worst=rule(1)))
        self.assertEqual(judge.figures(dict(outputs=[out]))["share"], float("inf"))
        self.assertEqual(judge.figures(dict(outputs=[out | dict(not_finite=0)]))["share"], 0.5)

    def test_a_bad_capture_is_refused_and_not_passed(self):
        from referee import judge
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/x.safetensors", "w") as f:
                f.write("no capture")
            self.assertEqual(judge.check(os.environ["ETALON"], folder + "/x.safetensors", True)["verdict"], "refused")

    def test_inputs_are_the_same_again(self):
        import torch
        from referee import inputs
        a, b = (inputs.delta("normal")[0] for _ in range(2))
        self.assertTrue(all(torch.equal(a[n], b[n]) for n in a))
        self.assertFalse(torch.equal(a["q"], inputs.delta("another")[0]["q"]))

    def test_a_tensor_core_cuts_off_and_a_scan_adds_all(self):
        import numpy as np
        from referee import causes
        one = lambda x: float(causes.tensor_core(np.ones((1, 1)), np.full((1, 1), x), np.ones((1, 1)))[0, 0])
        self.assertEqual([one(-2.0**-25), one(-2.0**-26), one(2.0**-24), one(2.0**-23)], [1 - 2.0**-24, 1, 1, 1 + 2.0**-23])
        self.assertEqual(causes.cub_scan(np.ones(64, np.float32), 15).tolist(), list(range(1, 65)))

    def test_lengths_have_every_remainder(self):
        from referee import points
        self.assertEqual({n % 64 for n in points.LENGTHS}, set(range(64)))
        self.assertEqual((min(points.LENGTHS), max(points.LENGTHS)), (1, 8192))
        self.assertEqual((max(points.DECAYS), min(points.DECAYS)), (-1e-6, -60))

    def test_every_kernel_has_rows_and_a_sweep(self):
        from referee import kernel, points
        for k in kernel.load():
            self.assertIn(k.op, points.ROWS, k.name)
            self.assertIn(k.op, points.SWEEPS, k.name)


if __name__ == "__main__":
    unittest.main()
