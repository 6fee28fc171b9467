"""Times of another clock, arguments of every shape, and names with numbers that are none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import foretrace
from corpus.build import E4, E7, Event, g0
from corpus.builder import TraceBuilder
from corpus.opening import run
from foretrace.base.arrays import Bools, Ints
from foretrace.base.units import whole
from foretrace.read.kineto.assemble import outliers
from foretrace.read.tables import KIND
from foretrace.trace.arguments import Signature
from foretrace.trace.trace import Trace
from opened_traces import open_made
from sweep import looped

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


@looped(
    ("text", "number"),
    [("7", 7), ("-7", -7), ("9223372036854775807", (1 << 63) - 1), ("9223372036854775808", None)]
    + [(text, None) for text in ("", "-", "--5", "²", "٣", "1_0", " 7", "0x7", "7.0", "9" * 5_000)],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole(text) == number


SIZES = pl.List(pl.List(pl.Int64))


def opened(folder: Path, op: Event, kernel: Event | None = None) -> Trace:
    return open_made(g0().args(E4, op).args(E7, kernel or {}), folder)


def signature(trace: Trace) -> Signature:
    op = int(trace.gpu.op[0])
    found = trace.arguments.of(op)
    assert found is not None
    return found


def test_tensors_and_tensor_lists(tmp_path: Path) -> None:
    lists = {
        "Input Dims": [[2, 3], [], [[4, 5], [6]], [[7]]],
        "Input Strides": [[3, 1], [], [[5, 1], [1]], [[1]]],
        "Input type": ["float", "Scalar", "TensorList", "TensorList"],
        "Concrete Inputs": ["", "1", "", ""],
    }
    trace = opened(tmp_path, lists)
    found = signature(trace)
    assert [found.dims, found.strides] == [lists["Input Dims"], lists["Input Strides"]]
    assert [found.types, found.concrete] == [lists["Input type"], lists["Concrete Inputs"]]
    assert found.tensors == [[2, 3]]
    (row,) = trace.table("shapes").select("dims", "list_dims").to_dicts()
    assert row["dims"] == [[2, 3], [], None, None]
    assert row["list_dims"] == [None, None, [[4, 5], [6]], [[7]]]


@pytest.mark.parametrize(
    ("dims", "read"),
    [
        ([[2, "3"], 4, None, [[1], "a"], [1 << 70], [1.5], [True], [8]], [None] * 7 + [[8]]),
        ("[2, 3]", []),
        ([], []),
    ],
)
def test_what_does_not_fit_is_null(tmp_path: Path, dims: Any, read: list[Any]) -> None:
    trace = opened(tmp_path, {"Input Dims": dims})
    assert signature(trace).dims == read
    assert trace.shapes.schema["dims"] == trace.ops.schema["dims"] == SIZES


@pytest.mark.parametrize(
    ("grid", "read"), [([4, 1, 1], [4, 1, 1]), ("grid(4,)", None), ([4, "1"], None), (7, None)]
)
def test_a_grid_is_a_list_of_numbers(tmp_path: Path, grid: Any, read: list[int] | None) -> None:
    trace = opened(tmp_path, {}, {"grid": grid})
    assert trace.kernels["grid"].to_list() == [read]
    assert trace.kernels["block"].to_list() == [[128, 1, 1]]


def test_calls_with_the_same_arguments_share_a_signature(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(g0().bytes().replace(b"[[8, 8], [8, 8]]", b"[[8,8],\t[8,8]]"))
    table = foretrace.open(path, cache=False).tables["signatures"]
    assert table["dims"].to_list() == [[[8, 8], [8, 8]]]


@pytest.mark.parametrize("digits", ["9" * 5_000, "9" * 30, "²", "٣"])
def test_names_with_odd_numbers(digits: str, tmp_path: Path) -> None:
    """`ProfilerStep#`, compiled regions, modules, frames and kernels with such a number."""
    builder = TraceBuilder().step(1, 0, 900_000)
    names = ("Torch-Compiled Region: {0}/{0}", "ProfilerStep#{0}", "nn.Module: Linear_{0}")
    for at, name in enumerate((*names, "model.py({0}): forward", "Optimizer.step#Adam{0}.step")):
        builder.region(name.format(digits), 10_000 * at, 9_000)
        builder.frame(name.format(digits), 10_000 * at + 1_000, 5_000)
    kernels = ("CatArrayBatchedCopy<OpaqueType<{0}u>, unsigned int, {0}, 64, 64>", "triton_poi_{0}")
    for at, name in enumerate((*kernels, "nvjet_hsh_{0}x{0}_64x{0}_v_bz_TNT", "sgemm_{0}x64_nn")):
        builder.op("aten::cat", 100_000 * at, 90_000, dims=[[8, 8]], types=["float"])
        builder.launch(100_000 * at + 2_000, 5_000)
        builder.kernel(name.format(digits), 100_000 * at + 10_000, 5_000)
    path = tmp_path / "t.json"
    path.write_bytes(builder.bytes("minified"))
    assert run("look", str(path), "--all", "--no-cache").code == 0
