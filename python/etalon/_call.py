"""Calls, verdicts and cases."""
import ctypes as c
import html
import json
import math
from ctypes import byref

from . import Error, Op, _lib, _tensor


class Call:
    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        if self.handle and _lib._lib:
            _lib._lib.etalon_call_free(self.handle)

    def set(self, name, x):
        try:
            dtype, shape, strides, address, keep = _tensor.view(x)
        except TypeError as e:
            raise Error(str(e), name) from None
        if len(shape) > _lib.MAX_RANK:
            raise Error(f"rank {len(shape)}; expected at most {_lib.MAX_RANK}", name)
        t = _lib.CTensor(_lib.text(name, "tensor"), dtype.encode(), len(shape), (c.c_size_t * _lib.MAX_RANK)(*shape))
        if strides is not None:
            t.strides = (c.c_ssize_t * max(1, len(strides)))(*strides)
        t.data = address or None
        _lib.ask("call_set", self.handle, byref(t))
        del keep

    def note(self, key, value):
        if value:
            _lib.ask("call_note", self.handle, key.encode(), _lib.text(str(value), key))

    def answer(self, arithmetic="dd", fault=None):
        """The reference's answer in the place of the outputs."""
        _lib.ask("call_answer", self.handle, _lib.text(arithmetic, "arithmetic"), _lib.text(fault, "fault") if fault else None)

    def write(self, path):
        _lib.ask("call_write", self.handle, _lib.path(path))

    def tensors(self):
        t, i, all_ = _lib.CTensor(), 0, {}
        while _lib.lib().etalon_call_get(self.handle, i, byref(t)):
            shape = tuple(t.shape[:t.rank])
            dtype = t.dtype.decode()
            all_[t.name.decode()] = Tensor(dtype, shape, c.string_at(t.data, math.prod(shape) * _tensor.SIZE[dtype]) if t.data else b"")
            i += 1
        return all_


def make(op, inputs, outputs, params, producer, device, contract):
    name = _name(op)
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not hasattr(tensors, "items"):
            raise Error(f"expected tensors by name, as {{'x': x}}, got {type(tensors).__name__}", what)
    call = Call(_lib.ask("call_new", _lib.text(name, "op"), json.dumps({k: _param(k, x) for k, x in params.items()}).encode()))
    for prefix, tensors in (("in.", inputs), ("out.", outputs)):
        for key, x in tensors.items():
            if x is not None:
                call.set(f"{prefix}{key}", x)
    call.note("producer", producer)
    call.note("device", device)
    if contract and contract != "auto":
        call.note("contract", contract)
    return call


def _name(op):
    if isinstance(op, (str, Op)):
        return getattr(op, "name", op)
    raise Error(f"expected an op's name or an etalon.Op, got {type(op).__name__}", "op")


def _param(name, x):
    """A parameter as JSON has it: arrays of one number or more as numbers."""
    try:
        x = x.tolist() if hasattr(x, "tolist") else x
        json.dumps(x, allow_nan=False)
        return x
    except (TypeError, ValueError, RuntimeError):
        raise Error(f"no parameter's value: {x!r:.60}", name) from None


def read(path):
    return Call(_lib.ask("call_read", _lib.path(path)))


class Verdict:
    """.outcome ("pass", "fail", "undecided"), .passed, .fault (a name or None), .reasons, .json (all that is known), .text: the report, as str()
    gives it."""

    def __init__(self, outcome, fault, reasons, json, text):
        self.outcome, self.fault, self.reasons, self.json, self.text = outcome, fault, reasons, json, text

    @classmethod
    def of(cls, handle):
        lib = _lib.lib()
        try:
            fault = lib.etalon_fault(handle)
            reasons = []
            while (reason := lib.etalon_reason(handle, len(reasons))) is not None:
                reasons.append(reason.decode())
            return cls(("pass", "fail", "undecided")[lib.etalon_outcome(handle)], fault.decode() if fault else None, reasons,
                       json.loads(_lib.ask("report", handle, b"json")), _lib.ask("report", handle, b"text").decode())
        finally:
            lib.etalon_verdict_free(handle)

    @property
    def passed(self):
        return self.outcome == "pass"

    def __bool__(self):
        raise TypeError("a verdict is no bool: ask verdict.passed")

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<etalon.Verdict {self.outcome}{' ' + self.fault if self.fault else ''}>"

    def _repr_html_(self):
        colour = {"pass": "#1a7f37", "fail": "#cf222e", "undecided": "#9a6700"}[self.outcome]
        names = next((list(o["rules"]) for o in self.json["outputs"] if o["rules"]), [])       # indices have none
        rows = "".join(
            f"<tr><td>{html.escape(o['name'])}</td>" + _indices(o, len(names)) + "".join(
                f"<td style='text-align:right{';color:#cf222e' if _broken(r) else ''}'>{_figure(r['value'])} ({_figure(r['limit'])})</td>"
                for r in o["rules"].values()) + "</tr>" for o in self.json["outputs"])
        head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
        reasons = "".join(f"<li>{html.escape(r)}</li>" for r in self.reasons)
        return (f"<b style='color:{colour}'>{self.outcome.upper()}</b> {html.escape(self.json['op'])} under contract "
                f"{html.escape(self.json['contract'])}<ul>{reasons}</ul><table><tr><th>error in σ (limit)</th>{head}</tr>{rows}</table>"
                f"<details><summary>report</summary><pre>{html.escape(str(self))}</pre></details>")


def _indices(output, columns):
    found = output["indices"]
    if not found:
        return ""
    said = f"indices: {output['elements'] - output['bit_equal']} of {output['elements']} differ, {found['moving']} may by rounding"
    return f"<td colspan='{max(1, columns)}'>{html.escape(said)}</td>"


def _figure(x):
    return "–" if x is None else f"{x:.4g}"


def _broken(rule):
    return rule["value"] is None or (rule["limit"] is not None and rule["value"] > rule["limit"])


def judge(call, contract, quick, require_explained):
    how = _lib.CHow(_lib.text(contract, "contract") if contract else None, quick, require_explained)
    return Verdict.of(_lib.ask("judge", call.handle, byref(how)))


class Tensor:
    """An input of a case: .dtype ("BF16", …), .shape, .data (bytes), .numpy(), .torch()."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, shape, data

    def numpy(self):
        import numpy
        names = {v: k for k, v in _tensor.TORCH.items() if k != "bool"}
        name = names[self.dtype]
        if self.dtype in ("BF16", "F8_E4M3", "F8_E5M2"):
            import ml_dtypes    # NumPy has no such type
            kind = getattr(ml_dtypes, name)
        else:
            kind = name
        return numpy.frombuffer(bytearray(self.data), dtype=kind).reshape(self.shape)

    def torch(self, device="cpu"):
        import torch
        names = {v: k for k, v in _tensor.TORCH.items() if k != "bool"}
        kind = getattr(torch, names[self.dtype])
        flat = torch.frombuffer(bytearray(self.data), dtype=kind) if self.data else torch.empty(0, dtype=kind)
        return flat.reshape(self.shape).to(device)

    def __repr__(self):
        return f"<etalon.Tensor {self.dtype} {list(self.shape)}>"


class Case(dict):
    """The inputs of a case by name; .params, and .answer() with the reference's outputs."""

    def __init__(self, op, name, seed):
        self.op, self.name = op, name
        self._call = Call(_lib.ask("call_case", _lib.text(op, "op"), _lib.text(name, "case"), seed))
        self.params = json.loads(_lib.lib().etalon_call_params(self._call.handle))
        super().__init__({k[3:]: t for k, t in self._call.tensors().items() if k.startswith("in.")})

    def torch(self, device="cpu"):
        return {k: t.torch(device) for k, t in self.items()}

    def numpy(self):
        return {k: t.numpy() for k, t in self.items()}

    def answer(self, arithmetic="dd", fault=None):
        """The reference's outputs by name, F64: exact, in another arithmetic, or with a known fault."""
        call = Call(_lib.ask("call_case", self.op.encode(), self.name.encode(), 1))
        for k, t in self._call.tensors().items():
            call.set(k, _Bytes(t))
        call.answer(arithmetic, fault)
        return {k[4:]: t for k, t in call.tensors().items() if k.startswith("out.")}


class _Bytes:
    """A Tensor as an array, whatever its type."""

    def __init__(self, t):
        self.keep = (c.c_char * max(1, len(t.data))).from_buffer_copy(t.data or b"\0")
        names = {v: k for k, v in _tensor.TORCH.items() if k != "bool"}
        self.dtype = type("dtype", (), {"name": names[t.dtype]})
        self.__array_interface__ = {"typestr": "|V1", "shape": t.shape, "data": (c.addressof(self.keep), True), "version": 3}


def case(op, name, seed):
    return Case(_name(op), name, seed)
