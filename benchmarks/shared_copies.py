"""What `look` says of shared copies, compared with what it says of their traces.

    python benchmarks/shared_copies.py                    # the recordings that ship
    python benchmarks/shared_copies.py FOLDER [FOLDER …]  # traces of others

A run record beside a trace is not copied, so the traces are opened without theirs.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import foretrace as ft
from foretrace.base.errors import ForetraceError
from foretrace.pages.export.publish import redact

SHIPPED = Path(ft.__file__).parent / "read/recordings/h200"


def same(path: Path, folder: Path) -> dict[str, bool]:
    """Which parts of the first screen are the same."""
    alone = Path(shutil.copy(path, folder / f"own-{path.name}"))
    trace = ft.open(alone, cache=False)
    a, b = ft.look(trace), ft.look(ft.open(redact(trace, folder), cache=False))
    return {
        "totals": a.totals == b.totals,
        "steps": a.steps == b.steps,
        "bound": a.verdict.bound == b.verdict.bound,
        "verdict": a.verdict == b.verdict,
        "groups": a.groups == b.groups,
        "fixes": [each.name for each in a.fixes] == [each.name for each in b.fixes],
    }


def main() -> None:
    """Count them over all traces."""
    folders = [Path(each) for each in sys.argv[1:]]
    paths = [path for each in folders for path in sorted(each.glob("*.json.gz"))]
    counts = Counter[str]()
    for path in paths or sorted(SHIPPED.rglob("*.json.gz")):
        with tempfile.TemporaryDirectory() as folder:
            try:
                held = same(path, Path(folder))
            except ForetraceError as problem:
                print(f"{path.name}: {problem}", file=sys.stderr)
                continue
        counts += Counter(["traces", *(name for name, is_same in held.items() if is_same)])
        if other := [name for name, is_same in held.items() if not is_same]:
            print(f"{path.name}: another {', '.join(other)}")
    print(*(f"{name} {count}" for name, count in counts.items()), sep=", ")


if __name__ == "__main__":
    main()
