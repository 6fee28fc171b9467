"""`foretrace gemms`: measures this machine's GPU, or its CPU where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from msgspec.structs import replace

from foretrace.base.errors import MissingError, UsageError
from foretrace.names.gemms import document
from foretrace.record.experiments.gemms import cpu
from foretrace.record.experiments.gemms.sweep import sweep
from foretrace.schema.documents.gemms import GemmsDocument
from foretrace.schema.gemms import GemmPoint

COMMAND = "foretrace gemms"
SUFFIX = ".parquet"


def measured(
    device: str | None,
    output: Path | None,
    most: int | None,
    kind: GemmPoint,
    say: Callable[[str], None],
    chosen: Sequence[GemmPoint] = (),
) -> GemmsDocument:
    """The matmuls of this machine's GPU as a map, or a few of its CPU; `chosen` ones alone."""
    here = torch.cuda.is_available()
    if device == "cuda" and not here:
        raise MissingError("torch sees no CUDA GPU: leave --device out to measure the CPU")
    if device != "cpu" and here:
        place = (output or Path("gemms")).with_suffix(SUFFIX)
        found = sweep(place, say, most, chosen)
        shown = kind if found.like(kind).height else next(iter(found.rows))
        return replace(document.mapped(found, shown), written=str(place))
    if output:
        raise UsageError("-o writes the map of a GPU: on a CPU use --json")
    swept = cpu.sweep(most, chosen)
    around = {"torch": swept.torch}
    count = len(swept.matmuls)
    return GemmsDocument(document.SCHEMA, swept.device, COMMAND, around, count, sweep=swept)
