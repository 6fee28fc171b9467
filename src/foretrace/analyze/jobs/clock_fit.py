"""Offset and drift of many clocks from events that all of them saw: the arithmetic.

Each arrival has a time on its rank's clock. Those of one collective happened at one unknown moment:

    time of arrival = moment of the collective + offset of the rank + drift of the rank * t + noise

The moments are eliminated (each collective only says how its ranks differ), and the offsets and drifts
are solved for together over the graph of collectives, by conjugate gradients: no matrix is built, so
that thousands of ranks need no more memory than their arrivals. Weights fall with the distance from
the fit: first gently, then to nothing for an arrival that cannot belong.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Bools, Floats, Ints

GENTLE_ROUNDS, STRICT_ROUNDS = 4, 4
HUBER, TUKEY = 1.345, 4.685  # 95% as efficient as least squares where the noise is normal
MAD = 1.4826  # from the median distance to the standard deviation, where the noise is normal
_SETTLED = 1e-8  # squares of what is left, in units of the noise: far below a nanosecond
_TURNS = 300  # a chain of 64 pipeline stages settles after about 150
_REPLICAS = 4
_MANY = 30  # below this so few arrivals are spare that a strict fit picks those that agree


class Problem(Struct, frozen=True):
    """Arrivals in order of collective. `first` has the first arrival of each collective, `noise_ns` how
    far ends of such a collective lie apart without any fault of the clocks, `t` the time of the
    arrival's collective in half lengths of the recording, from -1 to 1. `free_ns` is the largest
    drift over that unit that a clock may have before the arrivals speak.
    """

    collective: Ints
    first: Ints
    rank: Ints
    ranks: int
    time_ns: Floats
    noise_ns: Floats
    t: Floats
    free_ns: float

    @property
    def spread(self) -> Floats:
        """An arrival's distance to the others, from that to the mean which contains it."""
        count = np.diff(self.first, append=len(self.rank))
        spread: Floats = np.sqrt(count / np.maximum(count - 1, 1))[self.collective]
        return spread


class Fitted(Struct, frozen=True):
    """Offset in the middle and drift per half length, by rank; what each arrival is off the fit;
    and the standard errors of a rank's clock at the ends of the recording, and of its drift.
    """

    offset_ns: Floats
    drift_ns: Floats
    off_ns: Floats
    error_ns: Floats
    drift_error_ns: Floats


def solve(problem: Problem, reference: Ints) -> Fitted:
    """The clocks, relative to that of each rank's `reference` rank."""
    spare = _spare(problem, reference)
    widened = np.sqrt(len(problem.rank) / max(spare, 1))
    weight, unit = problem.noise_ns**-2.0, problem.noise_ns / problem.spread
    clocks, off, scale = np.zeros((2, problem.ranks)), problem.time_ns, 1.0
    for turn in range(GENTLE_ROUNDS + STRICT_ROUNDS * (spare >= _MANY)):
        clocks = _solved(problem, weight / scale**2, problem.time_ns, clocks)
        off = _centered(problem, weight, problem.time_ns - _shown(problem, clocks))
        # never below what is expected: few collectives may agree by chance
        scale = max(MAD * float(np.median(np.abs(off / unit))) * widened, 1.0)
        weight = _trust(off / unit / scale, turn) * problem.noise_ns**-2.0
    error = _error(problem, weight, scale, reference)
    clocks = clocks - clocks[:, reference]
    seen = np.bincount(problem.rank, weight * problem.t**2, problem.ranks) / scale**2
    drift_error = (seen + problem.free_ns**-2.0) ** -0.5  # without arrivals: what is free
    return Fitted(clocks[0], clocks[1], off * widened, error, drift_error)


def _spare(problem: Problem, reference: Ints) -> int:
    """How many more arrivals there are than unknowns: moments, offsets and drifts."""
    unknowns = len(problem.first) + 2 * (problem.ranks - len(np.unique(reference)))
    return len(problem.rank) - unknowns


def _trust(off: Floats, turn: int) -> Floats:
    """1 for an arrival on the fit, less the further it lies off."""
    far = np.abs(off)
    if turn < GENTLE_ROUNDS:
        return HUBER / np.maximum(far, HUBER)
    trust: Floats = np.maximum(1 - (far / TUKEY) ** 2, 0) ** 2
    return np.maximum(trust, 1e-12)  # never nothing: a collective keeps a moment


def _shown(problem: Problem, clocks: Floats) -> Floats:
    shown: Floats = clocks[0][problem.rank] + clocks[1][problem.rank] * problem.t
    return shown


def _centered(problem: Problem, weight: Floats, values: Floats) -> Floats:
    """Values less the weighted mean of their collective."""
    total = np.add.reduceat(weight * values, problem.first)
    mean = total / np.add.reduceat(weight, problem.first)
    centered: Floats = values - mean[problem.collective]
    return centered


def _summed(problem: Problem, weight: Floats, values: Floats) -> Floats:
    """What values of arrivals say about offset and drift of each rank."""
    pull = weight * _centered(problem, weight, values)
    return np.stack(
        [np.bincount(problem.rank, each, problem.ranks) for each in (pull, pull * problem.t)]
    )


def _solved(problem: Problem, weight: Floats, values: Floats, guess: Floats) -> Floats:
    """Weighted least squares by conjugate gradients, from a guess."""
    stay = np.array([[0.0], [problem.free_ns**-2.0]])
    own = [np.bincount(problem.rank, weight * problem.t**power, problem.ranks) for power in (0, 2)]
    ease = 1 / np.maximum(np.stack(own) + stay, 1e-300)
    found = guess.copy()
    rest = _summed(problem, weight, values - _shown(problem, found)) - stay * found
    step = ease * rest
    size = float((rest * step).sum())
    for _ in range(_TURNS):
        if size <= _SETTLED:
            break
        moved = _summed(problem, weight, _shown(problem, step)) + stay * step
        length = size / float((step * moved).sum())
        found, rest = found + length * step, rest - length * moved
        eased = ease * rest
        size, before = float((rest * eased).sum()), size
        step = eased + size / before * step
    return found


def _error(problem: Problem, weight: Floats, scale: float, reference: Ints) -> Floats:
    """How far a clock moves when the noise is drawn again: the graph may be long, and collectives few.

    The worse end of the recording counts.
    """
    draw, worst = np.random.default_rng(0), np.zeros(problem.ranks)
    kept: Bools = weight > 1e-6 * problem.noise_ns**-2.0
    for _ in range(_REPLICAS):
        noise = draw.normal(0, scale, len(weight)) * problem.noise_ns * kept
        clocks = _solved(problem, weight / scale**2, noise, np.zeros((2, problem.ranks)))
        clocks = clocks - clocks[:, reference]
        worst += (np.abs(clocks[0]) + np.abs(clocks[1])) ** 2
    error: Floats = np.sqrt(worst / _REPLICAS)
    return error
