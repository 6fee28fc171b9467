"""The verdict on torch.compile, from numbers made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from foretrace.analyze.compare.measure import Sample  # noqa: E402
from foretrace.analyze.compare.verdict import on_the_gpu  # noqa: E402
from foretrace.record.experiments.timing import Pace  # noqa: E402
from foretrace.record.experiments.trials import CallChanges, ModeTrial, verdict  # noqa: E402
from foretrace.record.experiments.visits import FirstCalls, Visit  # noqa: E402
from foretrace.schema.documents import encode  # noqa: E402
from foretrace.schema.documents.worth import EagerCompiled  # noqa: E402

NO_GPU = Sample(None, None)
FUSED = CallChanges(
    {"a": 5, "b": 4, "same": 3, "changed": 0, "removed": 2, "added": 1}, ("Fused.",), ("Same.",)
)


def pace(wall: float, gpu: float | None = None, spread: float = 1_000) -> Pace:
    return Pace(
        Sample(wall, spread), Sample(wall / 2, spread), NO_GPU if gpu is None else Sample(gpu, 100)
    )


def visit(
    eager: Pace,
    compiled: Pace,
    cost_ns: int = 1_000_000_000,
    shape: str = "batch 8",
    **first: object,
) -> Visit:
    calls = (cost_ns + int(compiled.wall.median or 0), *[int(compiled.wall.median or 0)] * 2)
    seen = replace(FirstCalls(calls, 0.9, 1, {}, (), ()), **first)  # type: ignore[arg-type]
    return Visit(shape, seen, eager, compiled, compiled=bool(seen.graphs))


FASTER = visit(pace(200_000, 190_000), pace(150_000, 140_000))
SLOWER = visit(pace(200_000, 190_000), pace(250_000, 140_000))
EVEN = visit(pace(200_000), pace(199_000))


def test_worth_it_names_the_calls_and_the_numbers() -> None:
    trial = ModeTrial("default", (FASTER,), FUSED)
    assert (trial.state, trial.worth.break_even_calls, trial.worth.saves_ns_per_call) == (
        "worth",
        20_000,
        50_000,
    )
    assert trial.text == (
        "Worth it: 200 us to 150 us per call (0.75x, noise 1.0%). Compile time (1.00 s) breaks "
        "even after 20,000 calls, which take 3.00 s. GPU time: 190 us to 140 us per call (0.74x, "
        "noise 0.1%). 3 of 5 kernels per call stay the same; the compiled call has 4."
    )


def test_a_slower_call_is_not_worth_it_and_the_gpu_s_part_is_told() -> None:
    trial = ModeTrial("default", (SLOWER,), None)
    assert (trial.state, trial.worth.break_even_calls) == ("not worth", None)
    gpu = on_the_gpu(trial.gpu, 1.0, "call")
    assert trial.text.startswith(
        "Not worth it: 200 us to 250 us per call (1.25x, noise 0.8%). Compile time is 1.00 s." + gpu
    )
    assert "after 20,000 calls" in gpu


def test_inconclusive_within_the_noise() -> None:
    trial = ModeTrial("default", (EVEN,), None)
    assert trial.state == "unknown"
    assert trial.text == (
        "Inconclusive: 200 us to 199 us per call is within the noise of 1.0%. Compile time is "
        "1.00 s."
    )


def test_shapes_are_averaged_their_stalls_added_and_what_runs_eagerly_is_named() -> None:
    visits = (
        visit(pace(200_000), pace(100_000), shape="8"),
        visit(
            pace(400_000),
            pace(300_000),
            3_000_000_000,
            "16",
            recompiles=("0/0: size",),
            graph_breaks={"print": 2},
        ),
        visit(
            pace(600_000),
            pace(500_000),
            0,
            "32",
            graphs=0,
            gave_up=("Dynamo recompile limit exceeded",),
        ),
    )
    trial = ModeTrial("default", visits, None)
    assert (trial.wall.a, trial.wall.b) == (400_000, 300_000)
    assert (trial.worth.cost_s, trial.worth.break_even_calls) == (4.0, 40_000)
    assert trial.text.endswith(
        "Part of it runs eagerly after 2 graph breaks. Times are means over 3 shapes. 1 of 2 "
        "later shapes recompiled; their longest stall is 3.00 s, at 16. Dynamo gave up at its "
        "recompile limit: 32 runs eagerly."
    )
    found = trial.document()
    assert (found.graphs, found.recompiles, found.graph_breaks) == (2, 1, {"print": 2})
    assert [entry.stall_ns for entry in found.shapes] == [1e9, 3e9, 0]
    assert found.gpu_ns == EagerCompiled(None, None, None, None)


def test_where_nothing_is_compiled_nothing_is_worth_it() -> None:
    trial = ModeTrial("default", (visit(pace(200_000), pace(100_000), graphs=0),), None)
    assert trial.state == "not worth"
    assert trial.text == ("Not worth it: none of it runs compiled, and the attempt takes 1.00 s.")


def test_all_kernels_the_same() -> None:
    same = CallChanges({"a": 3, "b": 3, "same": 3, "changed": 0, "removed": 0, "added": 0}, (), ())
    assert "All 3 kernels per call are the same." in ModeTrial("default", (FASTER,), same).text


def test_of_several_modes_the_one_that_saves_the_most_is_named_and_the_soonest() -> None:
    quick = ModeTrial("default", (FASTER,), None)
    best = ModeTrial("max-autotune", (visit(pace(200_000), pace(100_000), 60_000_000_000),), None)
    failed = ModeTrial("reduce-overhead", (), None, "BackendCompilerFailed: no")
    found = verdict((quick, best, failed))
    assert found.mode == "max-autotune"
    assert found.text.startswith("Of 3 modes max-autotune saves the most. Worth it: 200 us to 100")
    assert "(60.0 s) breaks even after 600,000 calls" in found.text
    assert found.text.endswith("default saves less and breaks even sooner, after 20,000 calls.")
    assert json.loads(encode(failed.document())) == {
        "mode": "reduce-overhead",
        "state": "failed",
        "failed": "BackendCompilerFailed: no",
        "text": "Cannot be compiled: BackendCompilerFailed: no.",
    }
    none = verdict((ModeTrial("default", (SLOWER,), None), failed))
    assert none.text.startswith(
        "None of the 2 modes is shown to be worth it. default: Not worth it:"
    )
