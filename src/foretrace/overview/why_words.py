"""Small phrases about compiled code: places, names of kernels, what a time is per."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.schema.compiler import NamedTensor, SourceLine
from foretrace.schema.documents.why import CompiledKernel, NotFused, Why

LIBRARY = ("extern_kernels.", "torch.ops.aten.", "torch.ops.")


def places(lines: Sequence[SourceLine], most: int = 3) -> str:
    """`record.py:52, model.py:41 and 2 more`; each line once."""
    names = list(dict.fromkeys(line.place for line in lines))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def unit(why: Why) -> str:
    """What times and counts are per."""
    return "per step" if why.steps else "in the trace"


def per_step(why: Why, amount: float) -> float:
    """An amount of the whole trace, per step where it has steps."""
    return amount / why.steps if why.steps else amount


def library_name(name: str) -> str:
    """`extern_kernels.mm` -> `mm`."""
    return next((name.removeprefix(start) for start in LIBRARY if name.startswith(start)), name)


def kernel_label(row: CompiledKernel) -> str:
    """A generated kernel by its name, a library's call by its op and the shapes that it reads."""
    if not row.extern:
        return row.name
    shapes = " x ".join(shape(each.tensor) for each in row.loads)
    return f"{library_name(row.name)} {shapes}".rstrip()


def shape(tensor: NamedTensor) -> str:
    """`[8192, 768]`."""
    return f"[{', '.join(map(str, tensor.shape))}]"


def stride(tensor: NamedTensor) -> str:
    """`(768, 1)`."""
    return f"({', '.join(map(str, tensor.stride))})"


def stays_apart(row: NotFused) -> str:
    """`mm and gelu`."""
    return f"{row.a_ops or row.a} and {row.b_ops or row.b}"
