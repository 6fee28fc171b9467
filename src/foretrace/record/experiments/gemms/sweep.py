"""`foretrace lab gemms`: sweeps this GPU into a map, or times a few matmuls of the CPU."""

from __future__ import annotations

import gzip
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from foretrace.base import notices
from foretrace.base.errors import MissingError, UsageError
from foretrace.base.files import write_bytes
from foretrace.names import devices
from foretrace.names.gemms import answers
from foretrace.names.gemms.build import errors, frame, make
from foretrace.names.gemms.distance import WITHIN
from foretrace.names.gemms.table import SUFFIX, GemmMap, entry
from foretrace.record.experiments.gemms import measure
from foretrace.record.experiments.gemms.points import held_out, points
from foretrace.record.experiments.roofs.measured_roofs import cpu_name, environment
from foretrace.schema.device import MeasuredRoofs
from foretrace.schema.documents.gemms import (
    GemmsDocument,
    LiveMark,
    LiveSweep,
    MappedMatmul,
    MatmulSize,
    SweptMatmul,
)
from foretrace.schema.gemm_point import GemmPoint

COMMAND = "foretrace lab gemms"
SAY_EVERY_S = 8.0
Row = dict[str, Any]

CPU_TYPES = ("fp32", "bf16")
_LAYERS = ((768, 768), (3072, 768), (768, 3072))
_ROWS = (1, 8, 64, 512)
REPEATS, ENOUGH_S, BUDGET_S = 5, 0.2, 20.0
EMULATED = 10  # times slower than fp32: a CPU without instructions for a type
NOT_HERE = {
    "kernel names": "a CPU has one library call for all shapes; its kernels have no names",
    "tiles, clusters, waves": "they are parts of a GPU kernel's name and launch",
    "times with an empty cache": "no program empties a CPU's caches for certain",
    "fp16, tf32, fp8": "types of GPU matmuls",
}


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
        found = sweep_gpu(place, say, most, chosen)
        shown = kind if found.like(kind).height else next(iter(found.rows))
        return replace(answers.mapped(found, shown), written=str(place))
    if output:
        raise UsageError("-o writes the map of a GPU: on a CPU use --json")
    swept = sweep_cpu(most, chosen)
    around = {"torch": swept.torch}
    count = len(swept.matmuls)
    return GemmsDocument(answers.SCHEMA, swept.device, COMMAND, around, count, sweep=swept)


def sweep_gpu(
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
        text = "".join(json.dumps(line) + "\n" for line in ({"environment": around}, *found))
        output.parent.mkdir(parents=True, exist_ok=True)
        packed = gzip.compress(text.encode(), mtime=0)
        write_bytes(output.with_suffix(f".{name}.jsonl.gz"), packed)
    kept = {name: [row for row in found if row.get("kernels")] for name, found in rows.items()}
    if not kept["sweep"]:
        raise UsageError(f"the library refused every matmul: {next(errors(rows['sweep']), '?')}")
    roofs: MeasuredRoofs | None = None
    with suppress(UsageError):  # what `foretrace lab roofs` measured on such a card, if anything
        roofs = devices.shown_roofs(around["gpu"])
    return make(around, kept["sweep"], output, kept.get("heldout", ()), roofs)


def _measured(chosen: Sequence[GemmPoint], name: str, say: Callable[[str], None]) -> list[Row]:
    pools = measure.OperandPools(measure.elements(chosen))
    found: list[Row] = []
    began = said = time.monotonic()
    for start in range(0, len(chosen), measure.BATCH):
        found += measure.recorded(chosen[start : start + measure.BATCH], pools)
        now = time.monotonic()
        if now - said > SAY_EVERY_S or len(found) == len(chosen):
            said = now
            say(f"{now - began:5.0f} s  {name}: {len(found)} of {len(chosen)} matmuls")
    return found


def marked(found: GemmMap, point: GemmPoint, family: str, us: float) -> tuple[LiveMark | None, str]:
    """A prediction against this machine's GPU; without the map's card, the reason."""
    if not torch.cuda.is_available():
        return None, "torch sees no CUDA GPU here"
    name = torch.cuda.get_device_name()
    if name != found.facts.device:
        return None, f"this GPU is an {name}, the map is of an {found.facts.device}"
    rows = measure.recorded([point], measure.OperandPools(measure.elements([point])))
    if not rows[0].get("kernels"):
        return None, f"the library refused it: {rows[0].get('error')}"
    facts = found.facts
    made = frame(rows, facts.sms, facts.flops, facts.bytes_per_s)
    return mark(name, entry(next(made.iter_rows(named=True))), family, us), ""


def mark(device: str, real: MappedMatmul, family: str, us: float) -> LiveMark:
    """A hit where the family is right and the time is within 15%."""
    error, right = us / real.cold_us - 1, real.family == family
    verdict = "hit" if right and abs(error) <= WITHIN else "miss"
    return LiveMark(
        device, real.kernel, real.short, real.family, real.cold_us, right, error, verdict
    )


def cpu_points() -> Iterator[GemmPoint]:
    """Layers of a small model with few and many rows, every layout and epilogue once."""
    for n, k in _LAYERS:
        for m in _ROWS:
            yield GemmPoint(m, n, k, "tn", "fp32")
    for layout in ("nn", "nt", "tt"):
        yield GemmPoint(64, 3072, 768, layout, "fp32")
    for epilogue in ("bias", "bias_gelu", "bias_relu"):
        yield GemmPoint(64, 3072, 768, "tn", "fp32", epilogue)
    for m in _ROWS:
        yield GemmPoint(m, 768, 768, "tn", "bf16")


def sweep_cpu(most: int | None = None, chosen: Sequence[GemmPoint] = ()) -> LiveSweep:
    """Time the matmuls that fit into twenty seconds: the chosen ones, else some of a model."""
    began, left = time.monotonic(), dict(NOT_HERE)
    found: list[SweptMatmul] = []
    roofs, source = _cpu_roofs()
    every = list(chosen or cpu_points())[:most]
    for number, point in enumerate(every):
        if time.monotonic() - began > BUDGET_S:
            left[f"{len(every) - number} matmuls"] = f"the sweep ends after {BUDGET_S:.0f} s"
            break
        notices.report(f"matmul {number + 1} of {len(every)}: {point.text}")
        if point.dtype in CPU_TYPES and point.dtype not in left:
            found.append(_entry(point, _seconds(measure.matmul(point, _random)), roofs))
            if slower := _emulated(found):
                left[point.dtype] = f"{slower:.0f} times slower than fp32: this CPU emulates it"
    notices.report()
    taken = time.monotonic() - began
    return LiveSweep(cpu_name(), str(torch.__version__), roofs, source, found, left, taken)


def _emulated(found: list[SweptMatmul]) -> float | None:
    """How many times slower the last matmul is than the same in fp32, if that is very many."""
    last = found[-1]
    plain = replace(last.matmul, dtype="fp32")
    slower = max((last.us / each.us for each in found if each.matmul == plain), default=1.0)
    return slower if slower > EMULATED else None


def _random(kind: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=kind) for shape in shapes]


def _seconds(call: Callable[[], object]) -> float:
    """The fastest repeat: other programs take cores away at times."""
    with warnings.catch_warnings():  # torch warns of a type that it emulates, a page long
        warnings.simplefilter("ignore")
        call()
    best, began = float("inf"), time.perf_counter()
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        best = min(best, end - start)
        if end - began > ENOUGH_S:
            break
    return best


def _entry(point: GemmPoint, seconds: float, roofs: dict[str, float]) -> SweptMatmul:
    rate, roof = point.flops / seconds, roofs.get(point.dtype)
    percent = None if roof is None else 100 * rate / (roof * 1e12)
    return SweptMatmul(MatmulSize(*point), seconds * 1e6, rate / 1e9, percent)


def _cpu_roofs() -> tuple[dict[str, float], str]:
    """TFLOP/s of this CPU by type, where `foretrace lab roofs` measured it.

    A matmul is no roof for other matmuls, unless no compiler could measure the units.
    """
    with suppress(UsageError):
        found = devices.shown_roofs(cpu_name())
        rates = found.units_tflops or found.tflops
        return {name: rates[name] for name in CPU_TYPES if name in rates}, found.command
    return {}, ""
