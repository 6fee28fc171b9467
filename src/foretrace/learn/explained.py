"""`foretrace explain --json`: what words mean, as the files of rules, fixes and others say it.
`foretrace explain --json`: the parts of a kernel name; names from stdin give a list.
"""

from __future__ import annotations

from difflib import get_close_matches
from math import prod
from typing import Any

import polars as pl
from msgspec import UNSET, Struct, UnsetType

from foretrace.base.errors import UsageError
from foretrace.look.documents import SCHEMA, Finding
from foretrace.trace.recording import op_call
from foretrace.trace.trace import Trace
from foretrace.work.costs.limits import WARP
from foretrace.work.kernel import FieldChange, KernelId, Part


class OnCard(Struct, frozen=True):
    """The kernel's chip generation against that of the card that `--gpu` names."""

    arch: str
    text: str


class NameLaunch(Struct, frozen=True):
    """One way in which a trace launches the kernel; None where that is not recorded.

    `op` launched it, `dims` is its first tensor. `block_size` is what Liger's source makes of the
    columns where one program does one row.
    """

    count: int
    grid: list[int] | None
    block: list[int] | None
    warps: int | None
    registers: int | None
    shared_memory: int | None
    op: str
    dims: list[int] | None
    block_size: int | None


class DecodedName(Struct, frozen=True):
    """What a kernel's name says, and which part of it says so.

    `launches` is how the trace of `--in` launched it. Two names give the document of the first,
    with the second as `other` and what differs as `changed`.
    """

    schema: int
    name: str
    short: str
    family: str
    role: str
    fields: dict[str, str | int | bool | list[int | str] | None]
    parts: tuple[Part, ...]
    gpu: OnCard | UnsetType = UNSET
    other: DecodedName | UnsetType = UNSET
    changed: tuple[FieldChange, ...] | UnsetType = UNSET
    launches: list[NameLaunch] | UnsetType = UNSET

    @classmethod
    def of(cls, kernel: KernelId, gpu: OnCard | UnsetType = UNSET) -> DecodedName:
        """The document of a decoded name."""
        told = (kernel.name, kernel.short, kernel.family, kernel.role, dict(kernel.fields))
        return cls(1, *told, kernel.parts, gpu)


class ManualEntry(Struct, frozen=True):
    """One rule, fix, quantity, op or document (`kind`). `manual` has the paragraphs of its file by
    their heads.

    `needs` are the data that a trace must have, with how to record them. `fixes` are the fixes that
    act on what a rule sees, `rules` the rules that lead to a fix. `example` is a recording that
    shows the rule, and `finding` what it says there, where one rule was explained.
    """

    kind: str
    name: str
    title: str
    manual: dict[str, str]
    needs: list[str] = []
    fixes: list[str] = []
    rules: list[str] = []
    example: str = ""
    finding: Finding | None = None


class Manual(Struct, frozen=True):
    """What was explained; without a word everything but ops. `kernels` are the words that are
    kernel names as well; those that are nothing else have a document of their own (`name`).
    """

    entries: list[ManualEntry]
    schema: int = SCHEMA
    kernels: list[DecodedName] | UnsetType = UNSET


DOCUMENTS = {"explain": Manual, "kernel_name": DecodedName}


def launches(trace: Trace, name: str) -> list[NameLaunch]:
    """Each way in which the kernel of this name was launched, the most frequent first."""
    found = trace.kernels.filter(pl.col("name") == name)
    if not found.height:
        near = get_close_matches(name, trace.kernels["name"].unique().to_list(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{trace.path} has no kernel of this name{hint}")
    ways = found.group_by(("grid", "block", "registers", "shared_memory"), maintain_order=True).agg(
        pl.len().alias("count"), pl.col("op").first(), pl.col("family").first()
    )
    rows = sorted(ways.iter_rows(named=True), key=lambda way: -way["count"])
    return [_launch(trace, row) for row in rows]


def _launch(trace: Trace, way: dict[str, Any]) -> NameLaunch:
    grid, block, op = way["grid"], way["block"], way["op"]
    call = op_call(trace, op) if op is not None else None
    dims = next((tensor.dims for tensor in call.every_tensor()), ()) if call else ()
    one_per_row = bool(grid and dims) and prod(grid or ()) == prod(dims[:-1])
    nvidia = bool(trace.about.arch and trace.about.arch.startswith("sm"))
    return NameLaunch(
        way["count"],
        list(grid) if grid else None,
        list(block) if block else None,
        -(-prod(block) // WARP) if block and nvidia else None,
        way["registers"],
        way["shared_memory"],
        call.name if call else "",
        list(dims) or None,
        1 << (dims[-1] - 1).bit_length()
        if way["family"] == "liger_triton" and one_per_row
        else None,
    )
