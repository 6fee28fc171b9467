"""Choosing by measurement: what was measured near a size, this machine before what ships, the
library where nothing is known or the gain is in doubt.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from foretrace.kernels import routes, steps, tune
from foretrace.kernels.case import CallCase, Tile
from foretrace.kernels.routes import (
    ALL_LIBRARY,
    LIBRARY,
    SEPARATE,
    MeasuredRoute,
    Route,
)
from foretrace.kernels.tune import CANDIDATES, write_table

TILE = Tile(128, 128, 64, 4, 8, 8)


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A card of this name, with nothing kept for it yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(routes, "card_name", lambda device: "Some Card")
    for kept in (routes.rows_for, routes.by_route, routes.measured_sizes, routes.plan):
        kept.cache_clear()
    return "Some Card"


def _rows(part: str, m: int, route: str, us: float = 10.0, *, d: int = 1024) -> list[MeasuredRoute]:
    """A route and the library at a size; the library takes 20 us, 30 us a call."""
    return [
        MeasuredRoute(part, m, d, 4096, "library", 20.0, 30.0),
        MeasuredRoute(part, m, d, 4096, route, us, us + 15.0),
    ]


def test_an_unknown_card_takes_the_library() -> None:
    assert routes.plan(0, torch.bfloat16, (64, 1024, 4096)) == ALL_LIBRARY


def test_a_measured_size_takes_its_fastest_route(card: str) -> None:
    fast, slow = Route("tma", TILE).text(), Route("pointer", TILE).text()
    rows = [*_rows("gate_up", 1024, fast), *_rows("gate_up", 1024, slow, 15.0)[1:]]
    write_table(routes.store_path(card), card, rows)
    assert routes.plan(0, torch.bfloat16, (1024, 1024, 4096), captured=True).gate_up.text() == fast
    assert routes.plan(0, torch.bfloat16, (1024, 1024, 4096)).gate_up.text() == slow  # one launch
    assert routes.plan(0, torch.bfloat16, (1024, 1024, 4096)).down == LIBRARY


def test_the_gpu_decides_in_a_graph_and_the_slower_of_host_and_gpu_elsewhere(card: str) -> None:
    """Two launches of the library and a pointwise kernel cost the host more than two launches."""
    fused, narrow = Route("pointer", TILE).text(), Route("narrow", TILE).text()
    rows = [
        MeasuredRoute(part, m, 1024, 4096, route, us, us)
        for m, times in {16: (10.0, 14.0), 4096: (400.0, 430.0)}.items()
        for part, other in (("gate_up", fused), ("down", narrow))
        for route, us in zip(("library", other), times, strict=True)
    ]
    write_table(routes.store_path(card), card, rows)
    small, large = (16, 1024, 4096), (4096, 1024, 4096)
    assert routes.plan(0, torch.bfloat16, small).gate_up.text() == fused
    assert routes.plan(0, torch.bfloat16, small).down.text() == narrow
    assert routes.plan(0, torch.bfloat16, small, captured=True).gate_up == LIBRARY
    assert routes.plan(0, torch.bfloat16, large).gate_up == LIBRARY


def test_weights_apart_cost_the_host_another_matmul(card: str) -> None:
    fused = Route("pointer", TILE).text()
    rows = [
        MeasuredRoute("gate_up", 64, 1024, 4096, route, us, us)
        for route, us in (("library", 20.0), (fused, 40.0))
    ]
    write_table(routes.store_path(card), card, rows)
    size = (64, 1024, 4096)
    assert routes.plan(0, torch.bfloat16, size, stacked=True).gate_up == LIBRARY
    assert routes.plan(0, torch.bfloat16, size, stacked=False).gate_up.text() == fused


def test_a_capture_takes_only_kernels_that_are_loaded(card: str) -> None:
    fused = Route("tma", TILE)
    rows = _rows("gate_up", 64, fused.text(), 19.0)
    rows.append(
        MeasuredRoute("gate_up", 64, 1024, 4096, "pointer 128 128 64 4 8 8 1 1", 20.0, 20.0)
    )
    write_table(routes.store_path(card), card, rows)
    size = (64, 1024, 4096)
    assert routes.plan_loaded(0, torch.bfloat16, size, "silu").gate_up.kind == "pointer"
    routes.note_loaded("gate_up", fused, torch.bfloat16, "silu", 64)
    assert routes.plan_loaded(0, torch.bfloat16, size, "silu").gate_up == fused


def test_a_size_is_learnt_at_its_first_call(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[tuple[int, int, int]] = []

    def measure(sizes: list[tuple[int, int, int]], dtype: torch.dtype) -> None:
        learnt.extend(sizes)
        rows = _rows("gate_up", sizes[0][0], Route("tma", TILE).text())
        write_table(routes.store_path(card), card, rows)

    monkeypatch.setattr(tune, "tune", measure)
    tune.learn()
    try:
        for _ in range(2):
            assert routes.plan(0, torch.bfloat16, (64, 1024, 4096)).gate_up != LIBRARY
    finally:
        tune.learn(False)
    assert learnt == [(64, 1024, 4096)]
    assert routes.plan(0, torch.bfloat16, (32, 1024, 4096)).gate_up == LIBRARY


def test_a_whole_pass_is_compared_with_its_parts(card: str) -> None:
    """Between two sizes only the relative time counts: 4% less, though the times differ by ten."""
    route = Route("pingpong", TILE).text()
    rows = [
        MeasuredRoute("whole", m, 1024, 4096, name, us, us)
        for m, parts in ((2048, 100.0), (4096, 1000.0))
        for name, us in (("parts", parts), (route, 0.96 * parts))
    ]
    write_table(routes.store_path(card), card, rows)
    plan = routes.plan(0, torch.bfloat16, (3072, 1024, 4096))
    assert plan.whole.text() == route
    assert plan.whole_saving == SEPARATE
    assert routes.plan(0, torch.bfloat16, (1024, 1024, 4096)).whole == SEPARATE
    write_table(routes.store_path(card), card, [row for row in rows if row.route == route])
    assert routes.plan(0, torch.bfloat16, (2048, 1024, 4096)).whole == SEPARATE
    write_table(routes.store_path(card), card, rows[:3])  # a size without its parts says nothing
    assert routes.plan(0, torch.bfloat16, (2048, 1024, 4096)).whole.text() == route


def test_a_size_in_between_needs_a_gain_beyond_doubt(card: str) -> None:
    large, small = Route("tma", TILE).text(), Route("pointer", TILE).text()
    rows = [row for m in (1024, 2048) for row in _rows("gate_up", m, large)]
    rows += [row for m in (1024, 2048) for row in _rows("down", m, small, 19.9)]
    write_table(routes.store_path(card), card, rows)
    between = routes.plan(0, torch.bfloat16, (1500, 1024, 4096), captured=True)
    assert between.gate_up.text() == large
    assert between.down == LIBRARY  # 0.5% is less than what the model cannot know


def test_times_of_another_alignment_do_not_count(card: str) -> None:
    rows = [row for m in (1024, 2048) for row in _rows("gate_up", m, Route("tma", TILE).text())]
    write_table(routes.store_path(card), card, rows)
    for d in (1032, 1025):
        assert routes.plan(0, torch.bfloat16, (1500, d, 4096), captured=True).gate_up == LIBRARY


def test_the_gradient_of_many_rows_says_nothing_about_few(card: str) -> None:
    """From 1024 rows on it reads what forward has already multiplied: it is faster there."""
    for part, chosen in (("gradient", "library"), ("gate_up", "pingpong")):
        route = Route("pingpong", TILE).text()
        rows = [row for m in (512, 1024, 2048) for row in _rows(part, m, route)]
        write_table(routes.store_path(card), card, rows)
        plan = routes.plan(0, torch.bfloat16, (900, 1024, 4096), captured=True)
        assert getattr(plan, part).kind == chosen


def test_left_out_sizes_of_the_shipped_table_are_chosen_well() -> None:
    """Every fifth size in turn is unknown: choices are good, and hardly one loses to the library."""
    lost: list[float] = []
    for kind, known in routes.by_route("NVIDIA H200").items():
        measured = {
            route: dict(zip(times.device.sizes, times.device.us, strict=True))
            for route, times in known.items()
        }
        usual = routes.plain(kind.part).text()
        for size in list(measured[usual])[::5]:
            others = {
                route: {other: us for other, us in times.items() if other != size}
                for route, times in measured.items()
            }
            estimates = routes.estimates(
                {kind: routes.beside_plain(usual, others)}, kind.part, size
            )
            chosen = routes.choose(estimates, kind.part).route
            taken = measured[chosen.text()].get(size, measured[usual][size])  # else it is not tried
            lost.append(taken / measured[usual][size])
    assert sum(ratio > 1.03 for ratio in lost) <= len(lost) // 200
    assert max(lost) < 1.15


def test_this_machine_comes_before_what_ships(
    card: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped = tmp_path / "shipped.json"
    write_table(shipped, card, _rows("down", 16, "narrow 16 32 128 4 4 8 1 4"))
    monkeypatch.setattr(routes, "shipped_path", lambda name: shipped)
    for kept in (routes.rows_for, routes.by_route, routes.plan):
        kept.cache_clear()
    assert routes.plan(0, torch.bfloat16, (16, 1024, 4096)).down.tile == Tile(
        16, 32, 128, 4, 4, split=4
    )
    write_table(
        routes.store_path(card), card, _rows("down", 16, "narrow 16 32 128 4 4 8 1 4", 25.0)
    )
    assert routes.plan(0, torch.bfloat16, (16, 1024, 4096)).down == LIBRARY


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": 3}', '{"rows": [["gate_up"]]}', "\x00"])
def test_a_damaged_table_is_no_table(card: str, text: str) -> None:
    path = routes.store_path(card)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert routes.read(path) == ()
    assert routes.plan(0, torch.bfloat16, (16, 1024, 4096)) == ALL_LIBRARY


def test_every_shipped_route_is_a_candidate_whose_resources_are_checked() -> None:
    for row in routes.read(routes.shipped_path("NVIDIA H200")):
        assert Route.parse(row.route) in [
            routes.plain(row.part), *(route for _, _, route in CANDIDATES[row.part])
        ]  # fmt: skip


def test_factors_are_saved_where_a_table_chooses_specialised_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Hopper card without a table takes the library, which would only write more."""
    monkeypatch.setattr(steps, "may_specialise", lambda like: True, raising=False)
    few, many = (1023, 768, 3072), (1024, 768, 3072)

    def saved_as(size: tuple[int, int, int]) -> str:
        return steps.saved_as(CallCase(size, torch.bfloat16, 0, "silu", (0, 0, 0, 0), True, 2))

    for card, saved in (("Some Card", "products"), ("NVIDIA H200", "factors")):
        monkeypatch.setattr(steps, "card_name", lambda device, card=card: card)
        steps._specialises.cache_clear()
        assert saved_as(many) == saved
        assert saved_as(few) == saved_as((4096, 768, 3080)) == "products"
    steps._specialises.cache_clear()


# Forward passes on an H200, us: as it is, and over copies in rows that fill cache lines.
MEASURED_COPIES = {
    (2449, 816, 3040): (76.4, 81.9),
    (15036, 1064, 3768): (611.4, 543.9),
    (1461, 744, 1568): (35.4, 41.4),
    (3786, 1096, 2000): (92.9, 99.7),
    (1607, 2584, 4248): (172.7, 215.3),
    (5016, 7904, 13640): (4432.8, 4787.8),
    (2987, 880, 2464): (78.8, 82.8),
}


def test_copies_into_longer_rows_are_made_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "card_name", lambda device: "NVIDIA H200")
    for (m, d, h), (plain, copied) in MEASURED_COPIES.items():
        longer = m, d + -d % 64, h + -h % 64
        assert routes.copies_pay(0, (m, d, h), longer) == (copied < plain), (m, d, h)
    monkeypatch.setattr(routes, "card_name", lambda device: "Some Card")
    assert not routes.copies_pay(0, (15036, 1064, 3768), (15036, 1088, 3776))


def test_a_route_that_is_much_in_doubt_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "card_name", lambda device: "NVIDIA H200")
    size = (26, 1018, 12393)  # far from what was measured: calls would gain, by a vague estimate
    assert routes.plan(0, torch.bfloat16, size, stacked=False).down == LIBRARY
    monkeypatch.setattr(routes, "MOST_DOUBT", 1.0)
    routes.plan.cache_clear()
    assert routes.plan(0, torch.bfloat16, size, stacked=False).down != LIBRARY
