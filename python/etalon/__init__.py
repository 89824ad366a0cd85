"""etalon: is what a kernel computed right?

    verdict = etalon.check("rmsnorm", inputs={"x": x, "weight": w}, outputs={"y": y}, eps=1e-6, weight_offset=0)
    assert verdict.passed, verdict

Tensors are whatever speaks DLPack or the array interface: torch (CPU or GPU), NumPy, CuPy, JAX. Ops, their tensors and
parameters: `etalon list`. Nothing is loaded before the first call.
"""
__version__ = "1.0.0"
__all__ = ["Case", "Error", "Op", "Verdict", "assert_correct", "check", "inputs", "save"]


class Error(Exception):
    """Bad input, or a machine that failed: .item (tensor, parameter, name), .file, .offset (byte, or None), .code (2 or 4); .text
    without them."""

    def __init__(self, message, item="", file="", offset=None, code=2):
        where = ": ".join(p for p in (file, f"'{item}'" if item else "", f"byte {offset}" if offset is not None else "") if p)
        super().__init__(f"{where}: {message}" if where else message)
        self.text, self.item, self.file, self.offset, self.code = message, item, file, offset, code


def check(op, inputs, outputs, *, contract=None, producer="", device="", quick=False, require_explained=False, apart=False, **params):
    """The verdict on one call. op: a name or an Op; contract: what the kernel may round ("auto": the tightest that it meets; None: the
    op's tightest); quick: the rules alone; require_explained: what nothing explains fails; apart: judged in a process of its own,
    so that this one, where the kernel runs, never holds the expected answers. Everything else is a parameter of the op."""
    from . import _apart, _call
    call = _call.make(op, inputs, outputs, params, producer, device, contract)
    return (_apart if apart else _call).judge(call, contract, quick, require_explained)


def save(path, op, inputs, outputs, *, contract=None, producer="", device="", **params):
    """The same call as a capture, a safetensors file, for `etalon check` and `etalon gate`."""
    from . import _call
    _call.make(op, inputs, outputs, params, producer, device, contract).write(path)


def inputs(op, case, seed=1):
    """The inputs of one of the op's cases (`etalon list cases OP`): a Case, the same on every machine."""
    from . import _call
    return _call.case(op, case, seed)


def assert_correct(op, inputs, outputs, **how):
    """check(), whose failure is an AssertionError with the report. Under pytest the call is also recorded where --etalon-record says."""
    from . import _apart, _call, _record
    __tracebackhide__ = True
    contract, quick, explained = how.pop("contract", None), how.pop("quick", False), how.pop("require_explained", False)
    judge = (_apart if how.pop("apart", False) else _call).judge
    call = _call.make(op, inputs, outputs, how, how.pop("producer", ""), how.pop("device", ""), contract)
    _record.keep(call)
    verdict = judge(call, contract, quick, explained)
    if not verdict.passed:
        what = verdict.fault or next(iter(verdict.reasons), "")       # in the one line that pytest's summary has
        more = "".join(f"  {reason}\n" for reason in verdict.reasons if reason != what)
        raise AssertionError(f"{verdict.outcome}: {what}\n{more}{verdict}")
    return verdict


class Op:
    """An op of one's own, from its formula, a text file: etalon.Op("mine.op").check(inputs, outputs)."""

    def __init__(self, path):
        from . import _lib
        self.name = _lib.op(path)

    def check(self, inputs, outputs, **how):
        return check(self.name, inputs, outputs, **how)

    def inputs(self, case, seed=1):
        return inputs(self.name, case, seed)

    def __repr__(self):
        return f"etalon.Op({self.name})"


def __getattr__(name):
    if name in ("Verdict", "Case"):
        from . import _call
        return getattr(_call, name)
    raise AttributeError(f"module 'etalon' has no attribute '{name}'")
