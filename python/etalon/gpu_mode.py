"""GPU MODE's reference kernels: a task's check_implementation, judged by etalon.

    from etalon.gpu_mode import make_match_etalon
    check_implementation = make_match_etalon("rmsnorm", inputs={"x": 0, "weight": 1}, outputs={"y": 0}, eps=1e-6, weight_offset=0)

in the place of make_match_reference(ref_kernel, rtol=..., atol=...). Numbers are positions in the tuple that generate_input returns and in
what the kernel returns; names are keys, where these are dicts. A function of all values may stand for either."""
from ._bind import Binding, values


def make_match_etalon(op, inputs, outputs, **how):
    """check_implementation(data, output) -> (bool, message), which eval.py takes. The expected answers stay in the judge's process."""
    binding = Binding(op, inputs, outputs, **how)

    def check_implementation(data, output):
        verdict = binding.judge(binding.take(values(data)), values(output))
        return verdict.passed, "" if verdict.passed else f"{verdict.outcome}: " + "; ".join(verdict.reasons)
    return check_implementation
