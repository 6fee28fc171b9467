"""Prints matmuls that a map should hold as well: kinds whose times are guessed worst.

python tools/gemm_points.py 10000 > points.txt          anywhere
foretrace lab gemms --points points.txt -o more.parquet     on the card
"""

from __future__ import annotations

import sys

from foretrace.record.experiments.gemms.points import more

COUNT = 10_000  # that the map of an H200 holds; two minutes there


def main(count: str = str(COUNT)) -> None:
    for point in more(int(count)):
        print(point.text)


if __name__ == "__main__":
    main(*sys.argv[1:])
