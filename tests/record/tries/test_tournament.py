"""Which fixes are tried, kept and combined; the processes are made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foretrace.base.errors import ForetraceError
from foretrace.record.tries import tournament
from foretrace.record.tries.rounds import (
    OUT_OF_TIME,
    Block,
    Edit,
    End,
    Facts,
    Kept,
    ProcessReport,
    TrySpec,
)
from foretrace.record.tries.tournament import Tournament, TryOptions, tried

pytest.importorskip("torch")
from foretrace.record.tries.session import Switch

SOURCE = "import torch\nmodel = Net()\noptimizer = torch.optim.AdamW(model.parameters())\n"
# how many times faster each fix makes a step, and how far it moves the losses
FACTORS = {"fused": (1.5, 0.0), "graph": (2.0, 0.0), "same": (1.0, 0.0), "rounds": (3.0, 0.1)}
KEPT = Kept([2.0, 1.5], [])


def fix(name: str, **more: Any) -> type[Switch]:
    return type(name, (Switch,), {"name": name, "title": name, "write": f"write {name}", **more})


class MadeUp:
    """Processes whose steps take 120 ns untouched; `answers` replaces those of some fixes."""

    def __init__(
        self, folder: Path, answers: dict[str, Callable[[TrySpec], ProcessReport]]
    ) -> None:
        self.folder, self.answers, self.ran = folder, answers, []

    def run(self, spec: TrySpec, *, limit_s: float, environment: Any) -> ProcessReport:
        self.ran.append((spec.on, spec.turned))
        for name in (*spec.on, *spec.turned):
            if name in self.answers:
                return self.answers[name](spec)
        base = 120.0
        for name in spec.on:
            base /= FACTORS[name][0]
        fast, moved = base, 0.0
        for name in spec.turned:
            fast /= FACTORS[name][0]
        for name in (*spec.on, *spec.turned):
            moved = max(moved, FACTORS[name][1])
        blocks = [
            Block(pair, on, fast if on else base, 4, 7)
            for pair in range(spec.pairs)
            for on in (False, True)
        ]
        facts = Facts("cuda", "a GPU", "optimizer.step", {"other": "no"}, EDITS, "2")
        kept = Kept([each * (1 + moved) for each in KEPT.losses], [])
        return ProcessReport(kept, blocks, facts if spec.watch else None, End(9, finished=True))


EDITS = {"fused": [Edit("add", "fused=True", 3, "AdamW")]}


def played(
    tmp_path: Path,
    fixes: list[type[Switch]],
    answers: Any = (),
    made_up: type[MadeUp] = MadeUp,
    **options: Any,
) -> tuple[Any, MadeUp]:
    script = tmp_path / "train.py"
    script.write_text(SOURCE)
    processes = made_up(tmp_path, dict(answers))
    told = TrySpec(str(script), str(tmp_path / "report"))
    known = {each.name: each for each in fixes}
    contest = Tournament(told, known, TryOptions(**options), processes, lambda text: None)  # type: ignore[arg-type]
    return tried(contest, "train.py"), processes


def states(document: Any) -> dict[str, str]:
    return {("+" if each.base else "") + each.name: each.state for each in document.fixes}


def test_the_best_comes_first_and_the_next_on_top(tmp_path: Path) -> None:
    names = ["fused", "graph", "same", "rounds", "other"]
    document, processes = played(tmp_path, [fix(each) for each in names])
    assert states(document) == {
        "graph": "kept",
        "fused": "kept",
        "+fused": "kept",
        "same": "no gain",
        "rounds": "differs",
        "other": "does not apply",
    }
    assert document.baseline.median_ns == 120
    assert document.best.fixes == ["graph", "fused"]
    assert (document.best.median_ns, document.best.ratio) == (40, 3)
    graph = document.fixes[0]
    assert (graph.median_ns, graph.ratio, graph.same, graph.pairs) == (60, 2, True, 11)
    [on_top] = [each for each in document.fixes if each.base]
    assert (on_top.median_ns, on_top.ratio, on_top.predicted_ns) == (40, 1.5, None)
    assert (("graph",), ("fused",)) in processes.ran
    assert ((), ("graph", "fused")) in processes.ran


def test_the_patch_has_what_can_be_written_and_names_the_rest(tmp_path: Path) -> None:
    document, _ = played(tmp_path, [fix("fused"), fix("graph")])
    assert "+optimizer = torch.optim.AdamW(model.parameters(), fused=True)" in document.patch.diff
    assert (document.patch.lines, document.patch.left_out) == (1, ["graph"])


def test_of_one_group_only_the_best_is_combined(tmp_path: Path) -> None:
    document, _ = played(tmp_path, [fix("fused", group="g"), fix("graph", group="g")])
    assert document.best.fixes == ["graph"]
    assert "+fused" not in states(document)


@pytest.mark.parametrize(
    ("ns", "state", "steps"), [(2e6, "kept", 2_500), (4e6, "no gain", None), (5e6, "no gain", None)]
)
def test_slow_first_steps_are_paid_back_or_never(
    ns: float, state: str, steps: int | None, tmp_path: Path
) -> None:
    def compiled(spec: TrySpec) -> ProcessReport:
        blocks = [
            Block(pair, on, ns if on else 4e6, 4, 0) for pair in range(11) for on in (False, True)
        ]
        return ProcessReport(Kept(KEPT.losses, [], 5e9), blocks, None, End(9, finished=True))

    document, _ = played(tmp_path, [fix("graph")], {"graph": compiled})
    [row] = document.fixes
    assert (row.state, row.cost_ns, row.break_even_steps) == (state, 5e9, steps)


def test_a_fix_that_raises_is_a_row(tmp_path: Path) -> None:
    failed = ProcessReport(KEPT, [], None, End(3, False, 1, "RuntimeError: no"))
    document, _ = played(tmp_path, [fix("fused"), fix("graph")], {"graph": lambda spec: failed})
    assert states(document) == {"fused": "kept", "graph": "raised"}
    assert document.fixes[1].why == "RuntimeError: no"


def test_what_was_measured_before_the_budget_ended_is_kept(tmp_path: Path) -> None:
    late = ProcessReport(None, [], None, None, stopped=OUT_OF_TIME)
    document, _ = played(tmp_path, [fix("fused"), fix("graph")], {"graph": lambda spec: late})
    assert states(document) == {"fused": "kept", "graph": "not tried"}
    assert document.best.fixes == ["fused"]
    assert "--budget" in document.notes[0]
    assert document.fixes[1].why == OUT_OF_TIME


def test_what_was_measured_before_ctrl_c_is_kept(tmp_path: Path) -> None:
    def stopped(spec: TrySpec) -> ProcessReport:
        raise KeyboardInterrupt

    document, _ = played(tmp_path, [fix("fused"), fix("graph")], {"graph": stopped})
    assert states(document) == {"fused": "kept", "graph": "not tried"}
    assert document.best.fixes == ["fused"]
    assert document.notes == ["stopped before everything was tried"]


def test_what_compiles_is_tried_last(tmp_path: Path) -> None:
    _, processes = played(tmp_path, [fix("graph", compiles=True), fix("same"), fix("fused")])
    assert [turned for _, turned in processes.ran if turned][:3] == [
        ("fused",),
        ("same",),
        ("graph",),
    ]


def test_a_gain_that_scatters_gets_more_processes(tmp_path: Path) -> None:
    def scattered(spec: TrySpec) -> ProcessReport:
        times = [(110 + 3 * pair, pair, on) for pair in range(11) for on in (False, True)]
        blocks = [Block(pair, on, 60 if on else ns, 4, 0) for ns, pair, on in times]
        return ProcessReport(KEPT, blocks, None, End(9, finished=True))

    document, processes = played(tmp_path, [fix("graph")], {"graph": scattered})
    assert processes.ran.count(((), ("graph",))) == 3
    assert document.fixes[0].pairs == 33


def test_a_budget_too_small_for_the_script_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ForetraceError, match="raise --budget"):
        played(tmp_path, [fix("fused")], budget_s=0)


def test_fixes_that_fail_together_leave_the_best_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = MadeUp.run

    def failing(processes: MadeUp, spec: TrySpec, **more: Any) -> ProcessReport:
        if len(spec.turned) > 1:
            return ProcessReport(KEPT, [], None, End(3, False, 1, "RuntimeError: no"))
        return run(processes, spec, **more)

    monkeypatch.setattr(MadeUp, "run", failing)
    document, _ = played(tmp_path, [fix("fused"), fix("graph")])
    assert (document.best.fixes, document.best.ratio) == (["graph"], 2)


def test_a_script_that_ends_early_is_started_again(tmp_path: Path) -> None:
    def short(spec: TrySpec) -> ProcessReport:
        blocks = [Block(0, False, 120, spec.block or 1, 0), Block(0, True, 60, spec.block or 1, 0)]
        return ProcessReport(KEPT, blocks, None, End(9, finished=False))

    document, processes = played(tmp_path, [fix("graph")], {"graph": short})
    [row] = document.fixes
    assert (row.pairs, row.ratio) == (4, 2)
    assert processes.ran.count(((), ("graph",))) == 4


def test_a_fresh_fix_gets_processes_in_turns(tmp_path: Path) -> None:
    def fresh(spec: TrySpec) -> ProcessReport:
        return ProcessReport(KEPT, [Block(0, True, 60, 4, 0)], None, End(9, finished=True))

    document, processes = played(tmp_path, [fix("graph", fresh=True)], {"graph": fresh})
    assert document.fixes[0].state == "kept"
    order = [on for on, turned in processes.ran[2:10]]
    assert order == [(), ("graph",), ("graph",), (), (), ("graph",), ("graph",), ()]


def test_a_dry_run_measures_the_untouched_script_alone(tmp_path: Path) -> None:
    document, processes = played(tmp_path, [fix("fused"), fix("other")], dry=True)
    assert states(document) == {"fused": "not tried", "other": "does not apply"}
    assert len(processes.ran) == 2


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ProcessReport(end=End(0, False, 1, "EOFError: EOF")), "asks for input"),
        (ProcessReport(end=End(0, False, 2, "bench has no 'it'")), "^bench has no 'it'$"),
        (
            ProcessReport(end=End(0, False, 2, ""), log="usage: x\nx: error: --data"),
            "x: error: --data",
        ),
        (
            ProcessReport(end=End(0, False, 1), log="needs --data\n"),
            r"^the untouched script fails: it exits with code 1 \(needs --data\)$",
        ),
        (ProcessReport(end=End(0, False, 0, "")), "no step was found"),
        (ProcessReport(code=-9), "ended with code -9"),
        (ProcessReport(stopped="no step for 300 s"), "no step for 300 s"),
    ],
)
def test_a_script_that_cannot_be_tried_is_one_line(
    found: ProcessReport, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MadeUp, "run", lambda *given, **more: found)
    with pytest.raises(ForetraceError, match=words) as caught:
        played(tmp_path, [fix("fused")])
    assert "\n" not in str(caught.value)


def test_what_is_left_after_the_best_is_predicted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, fused = ("graph",), ("fused",)
    recorded = {
        "untouched.json.gz": _replay(100, {"graph": 60}),
        "best.json.gz": _replay(50, {"fused": 40}),
    }
    monkeypatch.setattr(tournament, "_predicted", lambda trace: recorded[trace.name])
    fixes = [fix("fused", realises=fused), fix("graph", realises=graph)]
    document, processes = played(tmp_path, fixes)
    assert states(document) == {"graph": "kept", "+fused": "kept"}
    on_top = document.fixes[-1] if document.fixes[-1].base else document.fixes[0]
    # 40 of 50 of the step of the best, which takes 60 of 120 ns
    assert (on_top.predicted_ns, on_top.median_ns) == (pytest.approx(48), 40)
    assert document.best.fixes == ["graph", "fused"]
    assert ((), fused) not in processes.ran


def _replay(now: float, brings: dict[str, float]) -> Any:
    return SimpleNamespace(
        now_ns=now, fixes=[SimpleNamespace(fix=name, ns=ns) for name, ns in brings.items()]
    )


def test_a_patch_that_does_not_run_is_not_handed_over(tmp_path: Path) -> None:
    class Broken(MadeUp):
        def run(self, spec: TrySpec, **more: Any) -> ProcessReport:
            if spec.source is not None:
                return ProcessReport(end=End(0, finished=False, problem="NameError: m"))
            return super().run(spec, **more)

    document, _ = played(tmp_path, [fix("fused")], made_up=Broken)
    assert (document.patch.diff, document.patch.ratio) == ("", None)
    assert document.patch.left_out == ["fused"]
