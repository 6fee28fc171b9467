"""`foretrace worth --json`: whether torch.compile is worth it, mode by mode."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from foretrace.schema.documents.compare import ChangeEntry

# A mode that failed to compile has no numbers: these fields are then absent.
_ABSENT: Any = UNSET


class EagerCompiled(ChangeEntry, frozen=True):
    """Nanoseconds per call: eager (a), compiled (b), b over a, and the noise of the ratio."""


class CompiledShape(Struct, frozen=True):
    """A mode at one shape."""

    shape: str
    first_call_ns: int
    stall_ns: float
    compile_s: float
    graphs: int
    recompiles: list[str]
    gave_up: list[str]
    compiled: bool | None
    wall_ns: EagerCompiled


class CompileMode(Struct, frozen=True):
    """One mode of torch.compile. `state` is worth, not worth, unknown or failed."""

    mode: str
    state: str
    text: str
    failed: str | None
    saves_ns_per_call: float | None = _ABSENT
    cost_s: float | None = _ABSENT
    break_even_calls: int | None = _ABSENT
    wall_ns: EagerCompiled = _ABSENT
    host_ns: EagerCompiled = _ABSENT
    gpu_ns: EagerCompiled = _ABSENT
    compile_s: float = _ABSENT
    graphs: int = _ABSENT
    graph_breaks: dict[str, int] = _ABSENT
    recompiles: int = _ABSENT
    kernels: dict[str, int] | None = _ABSENT
    changed: list[str] = _ABSENT
    unchanged: list[str] = _ABSENT
    shapes: list[CompiledShape] = _ABSENT


class WorthVerdict(Struct, frozen=True):
    """The best mode, its state, and the verdict in words."""

    mode: str
    state: str
    text: str


class WorthDocument(Struct, frozen=True):
    """Every mode tried on one subject; `dtype` is None where the user's code decides it."""

    schema: int
    subject: str
    device: str
    torch: str
    dtype: str | None
    shapes: list[str]
    compiler_cache: str
    compiler_start_ns: int
    recompile_limit: int | None
    verdict: WorthVerdict
    modes: list[CompileMode]
    notes: list[str]


DOCUMENT = WorthDocument
