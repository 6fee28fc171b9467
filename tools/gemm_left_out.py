"""Leaves parts of the H200's map out and guesses their times: how the model was chosen.

Prints the share within 15% for each kind, with a quarter, half and all of the random matmuls,
and with the kernel known. Two of five parts are guessed, which takes some minutes. The held-out
matmuls are not read.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl

from foretrace.names.gemms import table, trees
from foretrace.names.gemms.accuracy import WITHIN
from foretrace.names.gemms.columns import columns
from foretrace.names.gemms.kinds import kind_of
from foretrace.names.gemms.predict import HOW
from foretrace.names.gemms.waves import modelled_us
from foretrace.record.experiments.gemms.points import drawn, held_out, more

PARTS, GUESSED = 5, 2
MORE = 10_000  # further matmuls that the map holds
KERNEL = ("tile_n", "tile_m", "tile_k", "split", "tiles", "waves", "blocks", "per_sm")
Array = np.ndarray[Any, np.dtype[Any]]

MAP = table.named("h200")
POINTS = list(MAP.rows)
MODEL = np.array([modelled_us(point) for point in POINTS])
WANTED = np.log(MAP.frame["cold_us"].to_numpy() / MODEL)
KINDS = np.array([kind_of(point) for point in POINTS])
MIX = Counter(map(kind_of, held_out()))  # kinds are as frequent as among the held-out matmuls
RANDOM = np.isin(np.arange(len(POINTS)), [MAP.rows[each] for each in (*drawn(), *more(MORE))])


def right(asked: Array, share: float) -> Array:
    """Whether random matmuls are guessed within 15% by trees that did not see their part; the
    rest is not a number.
    """
    chance = np.random.default_rng(0)
    part = np.where(RANDOM, chance.integers(0, PARTS, len(POINTS)), -1)
    kept = ~RANDOM | (chance.random(len(POINTS)) < share)
    guess = np.full(len(POINTS), np.nan)
    for number in range(GUESSED):
        for kind, how in HOW.items():
            seen = kept & (part != number) & (kind == KINDS)
            left = (part == number) & (kind == KINDS)
            guess[left] = trees.evaluate(trees.fit(asked[seen], WANTED[seen], how), asked[left])
    near = np.abs(np.exp(guess - WANTED) - 1) <= WITHIN
    found: Array = np.where(np.isnan(guess), np.nan, near)
    return found


def kernels() -> Array:
    """What the names and launches of the kernels say, which is not known before a matmul runs."""
    frame = MAP.frame.with_columns(pl.col("short", "others").rank("dense"))
    found: Array = frame.select(*KERNEL, "short", "others").fill_null(-1).to_numpy()
    return found


def main() -> None:
    asked = columns(POINTS, MODEL)
    told = np.column_stack([asked, kernels()]).astype(np.float32)
    tries = {"a quarter": (asked, 0.25), "half": (asked, 0.5), "all": (asked, 1.0)}
    for name, (own, share) in {**tries, "all, kernel known": (told, 1.0)}.items():
        ok = right(own, share)
        shares = {kind: np.nanmean(ok[kind == KINDS]) for kind in HOW}
        said = ", ".join(f"{kind} {share:.1%}" for kind, share in shares.items())
        every = sum(share * MIX[kind] for kind, share in shares.items()) / sum(MIX.values())
        print(f"{name}: {every:.1%} ({said})", flush=True)


if __name__ == "__main__":
    main()
