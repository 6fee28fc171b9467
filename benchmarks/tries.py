"""What `foretrace try --json` measured for several scripts, beside what was predicted.

    python benchmarks/tries.py FOLDER [--truth TRUTH.json]

FOLDER has the results, one file for each script. TRUTH.json has `bad_ms` and `good_ms` of programs
of the same name that were timed by hand. The rows go into `benchmarks/results/h200-tries.json`,
where the others stay; `tools/predictions_page.py` makes a table of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "h200-tries.json"


def rows(result: dict[str, Any], truth: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each fix that has a time."""
    script = Path(result["script"].partition(":")[0]).stem
    known = truth.get(script)
    for fix in result["fixes"]:
        if fix["ratio"] is None or fix["base"]:
            continue
        yield {
            "script": script,
            "fix": fix["name"],
            "state": fix["state"],
            "untouched_ms": result["baseline"]["median_ns"] / 1e6,
            "predicted_ms": fix["predicted_ns"] and fix["predicted_ns"] / 1e6,
            "ratio": fix["ratio"],
            "by_hand": known and known["bad_ms"] / known["good_ms"],
        }


def main() -> None:
    """Collect the rows of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--truth", type=Path)
    given = parser.parse_args()
    truth = json.loads(given.truth.read_text()) if given.truth else {}
    results = [json.loads(each.read_text()) for each in sorted(given.folder.glob("*.json"))]
    found = [row for each in results for row in rows(each, truth)]
    again = {(row["script"], row["fix"]) for row in found}
    kept = json.loads(RESULTS.read_text())
    before = [row for row in kept if (row["script"], row["fix"]) not in again]
    RESULTS.write_text(json.dumps(before + found, indent=1) + "\n")
    print(f"wrote {len(found)} rows of {len(results)} scripts to {RESULTS}, {len(before)} stay")


if __name__ == "__main__":
    main()
