"""Captures (docs/capture-format.md)."""
import json

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def read(path):
    """Inputs by name, parameters, outputs by name."""
    with safe_open(path, "pt") as f:
        meta, all = f.metadata(), {name: f.get_tensor(name) for name in f.keys()}
    side = lambda s: {name[len(s):]: x for name, x in all.items() if name.startswith(s)}
    return side("in."), json.loads(meta["etalon.params"]), side("out.")


def write(path, op, ins, params, outs, producer, contract=None, device=None):
    all = {"in." + k: x for k, x in ins.items()} | {"out." + k: x for k, x in outs.items()}
    meta = {"etalon.op": op, "etalon.params": json.dumps(params), "etalon.producer": producer,
            "etalon.device": device or (torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU")}
    if contract:
        meta["etalon.contract"] = contract
    save_file({k: x.detach().cpu().contiguous().clone() for k, x in all.items()}, path, metadata=meta)
