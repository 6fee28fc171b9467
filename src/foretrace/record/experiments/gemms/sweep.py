"""The sweep of a card: every matmul of `points`, kept as it is measured, then made into a map."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from foretrace.base.errors import MissingError, UsageError
from foretrace.names import devices
from foretrace.names.gemms.build import errors, frame
from foretrace.names.gemms.entries import entry
from foretrace.names.gemms.making import make
from foretrace.names.gemms.table import GemmMap
from foretrace.record.experiments.gemms.points import held_out, points
from foretrace.record.experiments.roofs.environment import environment
from foretrace.schema.documents.gemms import LiveMark, MappedMatmul
from foretrace.schema.gemms import GemmPoint
from foretrace.schema.roofs import MeasuredRoofs

NO_TRITON = "measuring matmuls on a GPU needs Triton: pip install 'foretrace[kernels]'"
RIGHT = 0.15  # of the measured time
SAY_EVERY_S = 8.0
Row = dict[str, Any]


def sweep(
    output: Path,
    say: Callable[[str], None],
    most: int | None = None,
    chosen: Sequence[GemmPoint] = (),
) -> GemmMap:
    """Measure this machine's GPU; a map of its matmuls goes to `output`, raw rows beside it.

    Without `chosen` matmuls it measures all of `points`, and others that are held out.
    """
    around = environment()
    if devices.find(around["gpu"], sms=int(around["sms"])) is None:
        raise UsageError(f"{around['gpu']}: its peaks are unknown; add it to devices/peaks.toml")
    parts = {"heldout": [] if chosen else held_out()[:most], "sweep": (chosen or points())[:most]}
    rows = {name: _measured(part, name, say) for name, part in parts.items() if part}
    for name, found in rows.items():
        _keep(output.with_suffix(f".{name}.jsonl.gz"), around, found)
    say("fitting the guesses to the times")
    kept = {name: [row for row in found if row.get("kernels")] for name, found in rows.items()}
    if not kept["sweep"]:
        raise UsageError(f"the library refused every matmul: {next(errors(rows['sweep']), '?')}")
    return make(around, kept["sweep"], output, kept.get("heldout", ()), _roofs(around["gpu"]))


def _roofs(device: str) -> MeasuredRoofs | None:
    """What `foretrace roofs` measured on such a card, if anything."""
    with suppress(UsageError):
        return devices.shown_roofs(device)
    return None


def _measured(chosen: Sequence[GemmPoint], name: str, say: Callable[[str], None]) -> list[Row]:
    measure = _measure()
    pools = measure.Pools(measure.elements(chosen))
    found: list[Row] = []
    began = said = time.monotonic()
    for start in range(0, len(chosen), measure.BATCH):
        found += measure.recorded(chosen[start : start + measure.BATCH], pools)
        now = time.monotonic()
        if now - said > SAY_EVERY_S or len(found) == len(chosen):
            said = now
            say(f"{now - began:5.0f} s  {name}: {len(found)} of {len(chosen)} matmuls")
    return found


def _measure() -> Any:
    try:
        from foretrace.record.experiments.gemms import measure
    except ModuleNotFoundError as error:
        raise MissingError(NO_TRITON) from error
    return measure


def _keep(path: Path, around: Mapping[str, str], rows: Sequence[Row]) -> None:
    from foretrace.base.files import write_bytes

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"environment": around}, *rows]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_bytes(path, gzip.compress(text.encode(), mtime=0))


def marked(found: GemmMap, point: GemmPoint, family: str, us: float) -> tuple[LiveMark | None, str]:
    """A guess against this machine's GPU; without the map's card, the reason."""
    if not torch.cuda.is_available():
        return None, "torch sees no CUDA GPU here"
    name = torch.cuda.get_device_name()
    if name != found.facts.device:
        return None, f"this GPU is an {name}, the map is of an {found.facts.device}"
    measure = _measure()
    rows = measure.recorded([point], measure.Pools(measure.elements([point])))
    if not rows[0].get("kernels"):
        return None, f"the library refused it: {rows[0].get('error')}"
    facts = found.facts
    made = frame(rows, facts.sms, facts.flops, facts.bytes_per_s)
    return mark(name, entry(next(made.iter_rows(named=True))), family, us), ""


def mark(device: str, real: MappedMatmul, family: str, us: float) -> LiveMark:
    """A hit where the family is right and the time is within 15%."""
    error, right = us / real.cold_us - 1, real.family == family
    verdict = "hit" if right and abs(error) <= RIGHT else "miss"
    return LiveMark(
        device, real.kernel, real.short, real.family, real.cold_us, right, error, verdict
    )
