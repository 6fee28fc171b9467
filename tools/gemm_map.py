"""Writes a map of matmuls that ships with the package, from the files of one sweep or several.

foretrace lab gemms -o card.parquet                                     on the card, two minutes
python tools/gemm_points.py > points.txt                            more matmuls, where few are
foretrace lab gemms --points points.txt -o more.parquet                 on the card, two minutes
python tools/gemm_map.py card.heldout.jsonl.gz card.sweep.jsonl.gz more.sweep.jsonl.gz
"""

from __future__ import annotations

import sys
from pathlib import Path

from foretrace.names import devices
from foretrace.names.gemms import table
from foretrace.names.gemms.build import make, rows_of


def main(heldout: str, *sweeps: str) -> None:
    around, apart = rows_of(Path(heldout))
    found = [rows_of(Path(sweep)) for sweep in sweeps]
    cards = {each["gpu"] for each, _ in [(around, apart), *found]}
    if len(cards) > 1:
        raise SystemExit(f"several cards: {', '.join(sorted(cards))}")
    name = around["gpu"].lower().replace(" ", "-")
    rows = [row for _, part in found for row in part]
    place, roofs = table.SHIPPED / f"{name}.parquet", devices.shown_roofs(name)
    made = make(found[0][0], rows, place, apart, roofs)
    print(f"{made.frame.height} matmuls, {made.facts.held_out}")
    for path in sorted(table.SHIPPED.glob(f"{name}*")):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
