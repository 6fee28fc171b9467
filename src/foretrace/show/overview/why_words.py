"""Small phrases about compiled code: places, names of kernels, what a time is per."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.analyze.why.refusals import REASONS
from foretrace.base.units import bytes_text, change_text
from foretrace.model.compiled.accesses import base_op
from foretrace.names import families
from foretrace.schema.compiler import NamedTensor, SourceLine
from foretrace.schema.documents.why import CompiledKernel, NotFused, OpMapping, Why

BOUNDS = {"at_most": "<= ", "at_least": ">= "}
GEMMS = frozenset(["mm", "addmm", "bmm", "baddbmm", "_int_mm", "_scaled_mm"])
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


def in_the_way(row: NotFused, device: str | None) -> str:
    """What stops Inductor at a library's call, and what may get past it: templates are for GEMMs.

    Only a trace says which library a GEMM goes to; a log alone may be of any device.
    """
    nvidia = bool(device and device.startswith("NVIDIA"))
    calls = [name for name in (row.a_target, row.b_target) if name]
    names = " and ".join(dict.fromkeys(map(library_name, calls)))
    subject = f"both {names}" if len(set(calls)) < len(calls) else names
    whose = {_library(name, nvidia) for name in calls}
    of = whose.pop() if len(whose) == 1 else ""
    is_call = f"are extern {of}calls" if len(calls) > 1 else f"is an extern {of}call"
    if row.inductor:  # with max-autotune it asks about a template, before tuning chooses
        return f"{subject} {is_call}, which tuning preferred to a template"
    if len(calls) > 1:
        return f"{subject} {is_call}: Inductor cannot join them"
    template = "a Triton template" if nvidia else "a template"
    may = f"; max-autotune may use {template}, which takes pointwise code in"
    gemm = any(base_op(name) in GEMMS for name in calls)
    return f"{subject} {is_call}: Inductor cannot put code into it{may if gemm else ''}"


def _library(name: str, nvidia: bool) -> str:
    """Whose code an extern call runs, as far as its name says; with a space behind."""
    if nvidia and base_op(name) in GEMMS:
        return "cuBLAS "
    known = (("mkl._mkl", "MKL "), ("mkldnn.", "oneDNN "), ("aten.", "ATen "))
    if name.startswith("extern_kernels."):
        return "ATen "
    return next((library for part, library in known if part in name), "")


def op_label(op: OpMapping) -> str:
    """`gelu`, `linear_1`; Dynamo names a node after the user's variable: `y = add`."""
    called = op.target.rpartition(".")[2] if ".ops." not in op.target else base_op(op.target)
    return op.op if not called or called in op.op else f"{op.op} = {called}"


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
