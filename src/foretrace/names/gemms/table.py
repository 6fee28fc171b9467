"""Maps of cards: Parquet files with one row for each matmul, and what was measured with them.

`maps/NAME.parquet` is the sweep, `NAME.heldout.parquet` the matmuls that it does not hold,
`NAME.trees.parquet` what was fitted to it, `NAME.json` the card, the roofs and the command.
"""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path

import msgspec
import polars as pl
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.base.files import replacing, write_bytes
from foretrace.schema.documents.gemms import MapAccuracy
from foretrace.schema.gemms import GemmPoint

SHIPPED = Path(__file__).with_name("maps")
SUFFIX = ".parquet"
KEY = GemmPoint._fields
_LARGEST = 64 << 20  # bytes: a map of ten thousand matmuls has 0.3 MB


class MapFacts(Struct, frozen=True):
    """Where a map comes from. Rates are FLOP/s by data type, and bytes per second of the memory.

    `accuracy` is that of guesses on the matmuls that were held out, counted when it was made.
    """

    device: str
    sms: int
    command: str
    environment: dict[str, str]
    flops: dict[str, float]
    bytes_per_s: float
    accuracy: MapAccuracy | None = None


class GemmMap:
    """A map: `frame` has the matmuls, `heldout` those that were left out of it."""

    def __init__(
        self,
        place: Path,
        facts: MapFacts,
        frame: pl.DataFrame,
        heldout: pl.DataFrame | None = None,
        trees: pl.DataFrame | None = None,
    ) -> None:
        self.place, self.facts, self.frame = place, facts, frame
        self._made = {"heldout": heldout, "trees": trees}

    @cached_property
    def heldout(self) -> pl.DataFrame | None:
        """Matmuls that the map does not hold; None where there are no such."""
        return self._beside("heldout")

    @cached_property
    def trees(self) -> pl.DataFrame | None:
        """The nodes of the trees that were fitted to the times; None where there are no such."""
        return self._beside("trees")

    def _beside(self, what: str) -> pl.DataFrame | None:
        made, path = self._made[what], beside(self.place, what)
        return pl.read_parquet(path) if made is None and path.is_file() else made

    @cached_property
    def rows(self) -> dict[GemmPoint, int]:
        """The row of each matmul."""
        return {GemmPoint(*row): at for at, row in enumerate(self.frame.select(KEY).iter_rows())}

    def like(self, point: GemmPoint) -> pl.DataFrame:
        """Matmuls of the same type, layout and epilogue."""
        return self.frame.filter(
            pl.col("dtype") == point.dtype,
            pl.col("layout") == point.layout,
            pl.col("epilogue") == point.epilogue,
        )


def names() -> list[str]:
    """The maps that ship: `nvidia-h200`."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


@cache
def named(name: str) -> GemmMap:
    """A map by its file, by its name or a part of it."""
    path = Path(name)
    if path.suffix == SUFFIX:
        return opened(path)
    wanted = "-".join(name.lower().split())
    found = [each for each in names() if wanted and wanted in each]
    if len(found) != 1:
        raise UsageError(f"no map of {name!r}: choose from {', '.join(names())}, or give a file")
    return opened(SHIPPED / f"{found[0]}{SUFFIX}")


def of_device(device: str | None) -> GemmMap | None:
    """The map that was measured on this device; None for any other card."""
    for name in names() if device else ():
        found = named(name)
        if found.facts.device == device:
            return found
    return None


def opened(path: Path) -> GemmMap:
    """The map in a file."""
    facts = path.with_suffix(".json")
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError("it is too large")
        frame = pl.read_parquet(path)
        known = msgspec.json.decode(facts.read_bytes(), type=MapFacts)
        frame.select(*KEY, "kernel", "family", "tile_n", "tile_m", "cold_us")
    except FileNotFoundError as problem:
        raise UsageError(
            f"{problem.filename}: no such file: `foretrace gemms -o` writes both"
        ) from None
    except (OSError, ValueError, pl.exceptions.PolarsError) as problem:
        first = str(problem).partition("\n")[0]
        raise UsageError(f"{path}: not a map of matmuls: {first}") from None
    return GemmMap(path, known, frame)


def beside(place: Path, what: str) -> Path:
    """The file of a part of a map."""
    return place.with_name(f"{place.stem}.{what}{SUFFIX}") if what else place


def save(found: GemmMap) -> None:
    """Write a map and all that belongs to it."""
    found.place.parent.mkdir(parents=True, exist_ok=True)
    parts = {"": found.frame, "heldout": found.heldout, "trees": found.trees}
    for what, table in parts.items():
        if table is not None:
            with replacing(beside(found.place, what)) as draft:
                table.write_parquet(draft, compression="zstd", compression_level=19)
    text = msgspec.json.format(msgspec.json.encode(found.facts), indent=1)
    write_bytes(found.place.with_suffix(".json"), text + b"\n")
