"""Small phrases about compiled code: places, names of kernels, what a time is per."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace import families
from foretrace.schema.compiler import NamedTensor, SourceLine
from foretrace.schema.documents.why import CompiledKernel, NotFused, Why
from foretrace.units import bytes_text, change_text
from foretrace.why.refusals import REASONS

BOUNDS = {"at_most": "<= ", "at_least": ">= "}
LIBRARY = ("extern_kernels.", "torch.ops.aten.", "torch.ops.")


def places(lines: Sequence[SourceLine], most: int = 3) -> str:
    """`record.py:52, model.py:41 and 2 more`; each line once."""
    names = list(dict.fromkeys(line.place for line in lines))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def first_place(lines: Sequence[SourceLine]) -> str:
    """`record.py:52 +2`, for a column."""
    names = list(dict.fromkeys(line.place for line in lines))
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def moved(row: CompiledKernel) -> str:
    """`151.0 MB`, `<= 28.3 MB`; with dynamic sizes the smallest and the largest run."""
    if row.bytes is None and len(row.run_bytes) > 1:
        return change_text(row.run_bytes[0], row.run_bytes[-1], bytes_text)
    bound = "" if row.bytes is None else BOUNDS.get(row.certainty, "")
    return f"{bound}{bytes_text(row.bytes)}"


def unit(why: Why) -> str:
    """What times and counts are per."""
    return "per step" if why.steps else "in the trace"


def per_step(why: Why, amount: float) -> float:
    """An amount of the whole trace, per step where it has steps."""
    return amount / why.steps if why.steps else amount


def library_name(name: str) -> str:
    """`extern_kernels.mm` -> `mm`."""
    short = next((name.removeprefix(start) for start in LIBRARY if name.startswith(start)), name)
    return short.removesuffix(".default")


def kernel_label(row: CompiledKernel) -> str:
    """A generated kernel by its name, a library's call by its op and the shapes that it reads."""
    if not row.extern:
        return row.name
    shapes = ["x".join(map(str, each.tensor.shape)) for each in row.loads]
    return " ".join([library_name(row.name), *(shapes if len(shapes) < 3 else [])])


def shape(tensor: NamedTensor) -> str:
    """`[8192, 768]`."""
    return f"[{', '.join(map(str, tensor.shape))}]"


def stride(tensor: NamedTensor) -> str:
    """`(768, 1)`."""
    return f"({', '.join(map(str, tensor.stride))})"


def stays_apart(row: NotFused) -> str:
    """`mm and gelu+mul`: what the two compute, by their names."""
    return f"{_computes(row.a)} and {_computes(row.b)}"


def _computes(handle: str) -> str:
    """`extern_kernels.mm:1` -> `mm`, `triton_poi_fused_gelu_mul_0:3` -> `gelu+mul`."""
    name = handle.rpartition(":")[0] or handle
    known = families.decode(name)
    if known.family.startswith("inductor"):
        return known.short.removeprefix("triton ").removeprefix("cpp ")
    return library_name(name)


def other_run(row: NotFused) -> str:
    """What a second run made of the two: one kernel, or which kernels still compute them."""
    made = row.elsewhere
    if made is None or not (made.a and made.b):
        return ""
    if made.fused:
        return f"The other run has one kernel for both: {made.fused}"
    names = f"The other run keeps {made.a[0]} and {made.b[0]} apart"
    why = f": {REASONS[made.reason]}" if made.reason in REASONS else ""
    return names + why + (f' (Inductor: "{made.inductor}")' if made.inductor else "")
