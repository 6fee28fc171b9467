"""Predictions drawn at random on recordings, with the truth from a reader of its own.

    python benchmarks/expressions.py --seed 1 --count 200 TRACE…

The reader is `tests/reference_reader.py`: the standard library and plain loops on the raw events.
Half of the predictions hold and half do not, by a margin. A wrong verdict is printed with the
truth;
one that is unknown is counted as not decided.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import foretrace as ft
from drawn_expressions import drawn
from foretrace.check import check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    each, more = divmod(arguments.count, len(arguments.traces))
    score, why = Counter[str](), Counter[str]()
    for at, path in enumerate(arguments.traces):
        predictions = drawn(path.read_bytes(), arguments.seed * 1000 + at, each + (at < more))
        verdicts = check(ft.open(path, cache=False), [one.text for one in predictions])
        for one, verdict in zip(predictions, verdicts, strict=True):
            right = "hit" if one.holds else "miss"
            word = verdict.verdict
            state = "right" if word == right else "not decided" if word == "unknown" else "wrong"
            score[state] += 1
            if state == "wrong" or arguments.verbose:
                print(f"{state}  {path.name}: {one.text}")
                print(f"       {word}: {verdict.measured} {verdict.why}; the truth: {one.truth}")
            if state == "not decided":
                why[verdict.why] += 1
    print(", ".join(f"{count} {state}" for state, count in score.most_common()))
    for reason, count in why.most_common():
        print(f"  {count:4} not decided: {reason}")
    return 1 if score["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
