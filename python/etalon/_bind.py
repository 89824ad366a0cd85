"""What a benchmark calls its tensors, and what an op of etalon's calls them."""
import copy

from . import Error, check


class Binding:
    """op: a name or an Op. inputs, outputs: {the op's tensor: its name or position in the benchmark, or a function of all values there}.
    Everything else is a parameter of the op: a value, or a function of all values."""

    def __init__(self, op, inputs, outputs, *, contract=None, require_explained=False, **params):
        if not outputs:
            raise Error("no output is bound, so nothing would be judged")
        self.op, self.inputs, self.outputs, self.params = op, inputs, outputs, params
        self.how = {"contract": contract, "require_explained": require_explained, "apart": True}

    def take(self, values):
        """Copies of the inputs, made before the kernel can change them."""
        return ({name: _copy(_find(where, values, "in." + name)) for name, where in self.inputs.items()},
                {name: p(values) if callable(p) else p for name, p in self.params.items()})

    def judge(self, taken, values):
        """The verdict, from another process."""
        inputs, params = taken
        outputs = {name: _find(where, values, "out." + name) for name, where in self.outputs.items()}
        return check(self.op, inputs, outputs, **self.how, **params)


def values(x):
    """Positions and tensors, whatever a benchmark hands over: a dict, a tuple, one tensor."""
    return x if isinstance(x, dict) else dict(enumerate(x)) if isinstance(x, (tuple, list)) else {0: x}


def _find(where, values, name):
    if callable(where):
        return where(values)
    if where not in values:
        raise Error(f"the benchmark has no {where!r}; it has {', '.join(map(repr, values))}", name)
    return values[where]


def _copy(x):
    return x.detach().to("cpu", copy=True) if hasattr(x, "detach") else copy.deepcopy(x)
