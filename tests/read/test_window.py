"""Which times are set aside: those of another clock, never those of a real recording."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from foretrace.base.arrays import Bools, Ints
from foretrace.base.units import whole
from foretrace.read.kineto.times import outliers
from foretrace.schema.tables import KIND

SECOND = 10**9
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND


def odd(host: Any, gpu: Any = (), length: int = 1_000, lanes: int = 4) -> Bools:
    """What is set aside of host events and then GPU events that start then."""
    start: Ints = np.array([*host, *gpu], np.int64)
    kind = np.array([KIND["cpu_op"]] * len(host) + [KIND["kernel"]] * len(gpu), np.uint8)
    every = np.ones(len(start), np.bool_)
    joined: Any = SimpleNamespace(kind=kind, ranged=every, lanes=lanes)
    return outliers(joined, start, np.full(len(start), length, np.int64), every)


def spread(count: int, start: int, step: int) -> list[int]:
    return [start + step * at for at in range(count)]


@pytest.mark.parametrize(
    ("host", "gpu"),
    [
        pytest.param([*spread(90, 0, 1000), 20 * HOUR], [], id="one call after 20 hours"),
        pytest.param(spread(50, 0, DAY), [], id="an event a day"),
        pytest.param(spread(90, 0, 1_000), spread(90, 50 * SECOND, 1_000), id="50 s late"),
        pytest.param([0], spread(90, 0, 59 * SECOND), id="a queue that outlasts its host"),
        pytest.param(spread(3, 0, HOUR), spread(3, SECOND, HOUR), id="pauses of an hour"),
        pytest.param(spread(9, 0, 1_000), spread(9, HOUR, 1_000), id="a clock of its own"),
        pytest.param([], spread(9, 0, HOUR), id="GPU events only"),
        pytest.param([], [], id="no event"),
    ],
)
def test_real_recordings_keep_every_time(host: list[int], gpu: list[int]) -> None:
    assert not odd(host, gpu).any()


@pytest.mark.parametrize(
    ("host", "gpu", "count"),
    [
        pytest.param([*spread(90, 0, 1000), 2 * 10**18], [], 1, id="an op of another epoch"),
        pytest.param(spread(90, 0, 1_000), [*spread(9, 0, 1000), HOUR], 1, id="a kernel"),
        pytest.param(spread(90, 0, 1_000), spread(50, 0, 9) + spread(40, HOUR, 9), 40, id="many"),
        pytest.param(spread(50, 0, 9) + spread(40, 4 * 10**18, 9), [], 40, id="two epochs"),
        pytest.param(spread(9, 0, 9), [*spread(8, HOUR, 9), 4 * 10**18], 1, id="on its own clock"),
    ],
)
def test_times_of_another_clock(host: list[int], gpu: list[int], count: int) -> None:
    assert odd(host, gpu).sum() == count


def test_sums_fit_64_bits() -> None:
    """Durations together, and the stretches of all threads and streams, stay below 2^62 ns."""
    many = odd([0] * 100_000, length=DAY)
    assert (~many).sum() * DAY < 1 << 62
    wide = odd(spread(400, 0, 100 * DAY), lanes=10_000)
    kept = np.array(spread(400, 0, 100 * DAY))[~wide]
    assert (int(kept.max()) - int(kept.min()) + DAY) * 10_000 < 1 << 62


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-7", -7), ("9223372036854775807", (1 << 63) - 1), ("9223372036854775808", None)]
    + [(text, None) for text in ("", "-", "--5", "²", "٣", "1_0", " 7", "0x7", "7.0", "9" * 5_000)],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole(text) == number
