"""The verdict on torch.compile, from numbers made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from foretrace.comparison.measure import Sample  # noqa: E402
from foretrace.ladder._pace import Pace  # noqa: E402
from foretrace.ladder._trials import Stay, Trial, Trials, Work  # noqa: E402
from foretrace.ladder._visits import Arrival  # noqa: E402

NO_GPU = Sample(None, None)
FUSED = Work(
    {"a": 5, "b": 4, "same": 3, "changed": 0, "removed": 2, "added": 1}, ("Fused.",), ("Same.",)
)


def pace(wall: float, gpu: float | None = None, spread: float = 1_000) -> Pace:
    return Pace(
        Sample(wall, spread), Sample(wall / 2, spread), NO_GPU if gpu is None else Sample(gpu, 100)
    )


def stay(
    eager: Pace,
    compiled: Pace,
    cost_ns: int = 1_000_000_000,
    shape: str = "batch 8",
    **arrival: object,
) -> Stay:
    calls = (cost_ns + int(compiled.wall.median or 0), *[int(compiled.wall.median or 0)] * 2)
    seen = replace(Arrival(calls, 0.9, 1, {}, (), ()), **arrival)  # type: ignore[arg-type]
    return Stay(shape, seen, eager, compiled, compiled=bool(seen.graphs))


FASTER = stay(pace(200_000, 190_000), pace(150_000, 140_000))
SLOWER = stay(pace(200_000, 190_000), pace(250_000, 140_000))
EVEN = stay(pace(200_000), pace(199_000))


def test_worth_it_names_the_calls_and_the_numbers() -> None:
    trial = Trial("default", (FASTER,), FUSED)
    assert (trial.state, trial.worth.break_even_calls, trial.worth.saves_ns_per_call) == (
        "worth",
        20_000,
        50_000,
    )
    assert trial.text == (
        "Worth it after 20,000 calls (3.00 s of them): a call takes 150 us instead of 200 us "
        "(0.75x, noise 1.0%), and "
        "compiling costs 1.00 s once. The GPU works 140 us instead of 190 us (0.74x, noise 0.1%) "
        "on a call. Of 5 kernels in a "
        "call 3 stay the same; compiled there are 4."
    )


def test_a_slower_call_is_not_worth_it_and_the_gpu_s_part_is_told() -> None:
    trial = Trial("default", (SLOWER,), None)
    assert (trial.state, trial.worth.break_even_calls) == ("not worth", None)
    assert trial.text.startswith(
        "Not worth it: a call takes 250 us instead of 200 us (1.25x, noise 0.8%), and compiling "
        "costs "
        "1.00 s once. The GPU is not the bottleneck."
    )
    assert "of GPU time and breaks even after 20,000 calls." in trial.text


def test_no_verdict_inside_the_noise() -> None:
    trial = Trial("default", (EVEN,), None)
    assert trial.state == "unknown"
    assert trial.text == (
        "Cannot be told: a call takes 199 us instead of 200 us, and the difference lies inside "
        "the noise of "
        "1.0%; compiling costs 1.00 s once."
    )


def test_shapes_are_averaged_their_stalls_added_and_what_runs_eagerly_is_named() -> None:
    stays = (
        stay(pace(200_000), pace(100_000), shape="8"),
        stay(
            pace(400_000),
            pace(300_000),
            3_000_000_000,
            "16",
            recompiles=("0/0: size",),
            graph_breaks={"print": 2},
        ),
        stay(
            pace(600_000),
            pace(500_000),
            0,
            "32",
            graphs=0,
            gave_up=("Dynamo recompile limit exceeded",),
        ),
    )
    trial = Trial("default", stays, None)
    assert (trial.wall.a, trial.wall.b) == (400_000, 300_000)
    assert (trial.worth.cost_s, trial.worth.break_even_calls) == (4.0, 40_000)
    assert trial.text.endswith(
        "2 graph breaks leave part of it eager. Times are means over 3 shapes. After the first "
        "shape it was compiled again at "
        "1 of 2; the longest stall there is 3.00 s, at 16. Dynamo gave up at its recompile limit, "
        "and 32 runs eagerly."
    )
    found = trial.document()
    assert (found["graphs"], found["recompiles"], found["graph_breaks"]) == (2, 1, {"print": 2})
    assert [entry["stall_ns"] for entry in found["shapes"]] == [1e9, 3e9, 0]
    assert found["gpu_ns"] == {"a": None, "b": None, "ratio": None, "noise": None}


def test_where_nothing_is_compiled_nothing_is_worth_it() -> None:
    trial = Trial("default", (stay(pace(200_000), pace(100_000), graphs=0),), None)
    assert trial.state == "not worth"
    assert trial.text == "Not worth it: nothing of it runs compiled, and trying costs 1.00 s."


def test_all_kernels_the_same() -> None:
    same = Work({"a": 3, "b": 3, "same": 3, "changed": 0, "removed": 0, "added": 0}, (), ())
    assert "All 3 kernels of a call are the same." in Trial("default", (FASTER,), same).text


def test_of_several_modes_the_one_that_saves_the_most_is_named_and_the_soonest() -> None:
    quick = Trial("default", (FASTER,), None)
    best = Trial("max-autotune", (stay(pace(200_000), pace(100_000), 60_000_000_000),), None)
    failed = Trial("reduce-overhead", (), None, "BackendCompilerFailed: no")
    found = Trials({"subject": "mlp"}, (quick, best, failed), ("A note.",)).document()
    assert found["verdict"]["mode"] == "max-autotune"
    assert found["verdict"]["text"].startswith(
        "Of 3 modes max-autotune saves the most. Worth it after 600,000 calls"
    )
    assert found["verdict"]["text"].endswith(
        "default saves less and pays sooner, after 20,000 calls."
    )
    assert found["modes"][2] == {
        "mode": "reduce-overhead",
        "state": "failed",
        "failed": "BackendCompilerFailed: no",
        "text": "Cannot be compiled: BackendCompilerFailed: no.",
    }
    none = Trials({}, (Trial("default", (SLOWER,), None), failed), ())
    assert none.text.startswith(
        "None of the 2 modes is shown to be worth it. default: Not worth it:"
    )
