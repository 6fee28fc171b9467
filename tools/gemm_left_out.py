"""Leaves parts of the H200's map out and guesses their times: how the model was chosen.

Prints the share within 15% for each kind, with a quarter, half and all of the random products,
and with the kernel known. Takes some minutes. The held-out products are not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from foretrace.experiments.gemms.points import drawn
from foretrace.gemms import table, trees
from foretrace.gemms.accuracy import WITHIN, kind_of
from foretrace.gemms.columns import columns
from foretrace.gemms.predict import HOW
from foretrace.gemms.waves import modelled_us, runs_on_nvjet

PARTS = 5
KERNEL = ("tile_n", "tile_m", "tile_k", "split", "tiles", "waves", "blocks", "per_sm")
Array = np.ndarray[Any, np.dtype[Any]]

MAP = table.named("h200")
POINTS = list(MAP.rows)
MODEL = np.array([modelled_us(point) for point in POINTS])
WANTED = np.log(MAP.frame["cold_us"].to_numpy() / MODEL)
MODERN = np.array([runs_on_nvjet(point) for point in POINTS])
KINDS = np.array([kind_of(point) for point in POINTS])
RANDOM = np.isin(np.arange(len(POINTS)), [MAP.rows[point] for point in drawn()])


def right(asked: Array, share: float) -> Array:
    """Whether each random product is guessed within 15% by trees that did not see its part."""
    chance = np.random.default_rng(0)
    part = np.where(RANDOM, chance.integers(0, PARTS, len(POINTS)), -1)
    kept = ~RANDOM | (chance.random(len(POINTS)) < share)
    guess = np.zeros(len(POINTS))
    for number in range(PARTS):
        for kind, how in HOW.items():
            seen = kept & (part != number) & (kind == MODERN)
            left = (part == number) & (kind == MODERN)
            guess[left] = trees.evaluate(trees.fit(asked[seen], WANTED[seen], how), asked[left])
    found: Array = np.abs(np.exp(guess - WANTED) - 1) <= WITHIN
    return found


def kernels() -> Array:
    """What the names and launches of the kernels say, which is not known before a product runs."""
    frame = MAP.frame.with_columns(pl.col("short", "others").rank("dense"))
    found: Array = frame.select(*KERNEL, "short", "others").fill_null(-1).to_numpy()
    return found


def main() -> None:
    asked = columns(POINTS, MODEL)
    told = np.column_stack([asked, kernels()]).astype(np.float32)
    tries = {"a quarter": (asked, 0.25), "half": (asked, 0.5), "all": (asked, 1.0)}
    for name, (own, share) in {**tries, "all, kernel known": (told, 1.0)}.items():
        ok = right(own, share)
        shares = {kind: ok[RANDOM & (kind == KINDS)].mean() for kind in np.unique(KINDS)}
        said = ", ".join(f"{kind} {share:.1%}" for kind, share in shares.items())
        print(f"{name}: {ok[RANDOM].mean():.1%} ({said})", flush=True)


if __name__ == "__main__":
    main()
