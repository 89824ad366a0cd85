"""A kernel of somebody's library, as the referee calls it."""
import dataclasses
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable


class Unsupported(Exception):
    """The kernel does not take these inputs, and why."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """call(t, p) -> outputs: t are the op's inputs by name, on the GPU, p its parameters; outputs by name.

    `call` may change t where the kernel's interface wants other inputs of the same op: the capture holds t as it is
    afterwards. `contract` is the tightest that allows what the kernel's documentation or source says it rounds.
    """
    library: str                # distribution or repository whose version is reported
    name: str
    op: str
    contract: str
    call: Callable
    width: int = 0              # head width (gated delta rule and its kin); 0: any
    l2norm: bool = False        # normalises q and k itself
    axes: tuple = ()            # sweeps that its interface has no room for


KERNELS: list[Kernel] = []


def kernel(library, name, op, contract, **about):
    def add(call):
        KERNELS.append(Kernel(library, name, op, contract, call, **about))
        return call
    return add


def version(library):
    """What the distribution, or else the module, says its version is; None where it is not installed."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        try:
            return importlib.import_module(library.replace("-", "_")).__version__
        except (ImportError, AttributeError):
            return None


def load():
    """Registers the kernels of libraries/*.py; they import what they call only when it is called."""
    from . import libraries
    for module in pkgutil.iter_modules(libraries.__path__):
        importlib.import_module(f"{libraries.__name__}.{module.name}")
    return KERNELS


def need(condition, why):
    if not condition:
        raise Unsupported(why)


def take_only(t, *names):
    """The kernel's interface has these inputs and no other."""
    extra = sorted(set(t) - set(names))
    need(not extra, "no place for " + ", ".join(extra))
