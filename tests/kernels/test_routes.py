"""Choosing by measurement: the nearest measured size, this machine before what ships, the library
where nothing is known.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from foretrace.experiments.tune import CANDIDATES, write_table
from foretrace.kernels import routes
from foretrace.kernels.device.products import Tile
from foretrace.kernels.routes import ALL_LIBRARY, LIBRARY, PARTS, MeasuredRoute, Route

TILE = Tile(128, 128, 64, 4, 8, 8)


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A card of this name, with nothing kept for it yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(routes, "card_name", lambda device: "Some Card")
    routes.rows_for.cache_clear()
    routes.plan.cache_clear()
    return "Some Card"


def _row(part: str, m: int, route: str) -> MeasuredRoute:
    return MeasuredRoute(part, m, 1024, 4096, route, 10.0, 20.0)


def test_a_route_reads_as_it_is_written() -> None:
    for route in (LIBRARY, Route("tma", TILE), Route("narrow", Tile(16, 32, 128, 4, 4, split=4))):
        assert Route.parse(route.text()) == route
    assert Route("tma", TILE).text() == "tma 128 128 64 4 8 8 1 1"


def test_an_unknown_card_takes_the_library() -> None:
    assert routes.plan(0, torch.bfloat16, (64, 1024, 4096)) == ALL_LIBRARY


def test_the_nearest_size_in_octaves(card: str) -> None:
    near, far = Route("tma", TILE).text(), Route("pointer", TILE).text()
    write_table(
        routes.store_path(card), card, [_row("gate_up", 1024, near), _row("gate_up", 16, far)]
    )

    def chosen(m: int, d: int = 1024) -> str:
        return routes.plan(0, torch.bfloat16, (m, d, 4096)).gate_up.text()

    assert chosen(1024) == near
    assert chosen(300) == near
    assert chosen(20) == far
    assert chosen(1) == LIBRARY.text()  # four octaves from anything measured
    assert chosen(1024, d=1024 << 5) == LIBRARY.text()
    assert routes.plan(0, torch.bfloat16, (1024, 1024, 4096)).down == LIBRARY


def test_what_no_kernel_takes(card: str) -> None:
    write_table(routes.store_path(card), card, [_row("gate_up", 1024, "tma 128 128 64 4 8 8 1 1")])
    assert routes.plan(0, torch.float32, (1024, 1024, 4096)) == ALL_LIBRARY
    assert routes.plan(0, torch.bfloat16, (0, 1024, 4096)) == ALL_LIBRARY


def test_this_machine_comes_before_what_ships(
    card: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped = tmp_path / "shipped.json"
    write_table(shipped, card, [_row("down", 16, "narrow 16 32 128 4 4 8 1 4")])
    monkeypatch.setattr(routes, "shipped_path", lambda name: shipped)
    routes.rows_for.cache_clear()
    assert routes.plan(0, torch.bfloat16, (16, 1024, 4096)).down.tile == Tile(
        16, 32, 128, 4, 4, split=4
    )
    write_table(routes.store_path(card), card, [_row("down", 16, "library")])
    assert routes.plan(0, torch.bfloat16, (16, 1024, 4096)).down == LIBRARY


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": 3}', '{"rows": [["gate_up"]]}', "\x00"])
def test_a_damaged_table_is_no_table(card: str, text: str) -> None:
    path = routes.store_path(card)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert routes.read(path) == ()
    assert routes.plan(0, torch.bfloat16, (16, 1024, 4096)) == ALL_LIBRARY


def test_the_shipped_table_can_be_used() -> None:
    rows = routes.read(routes.shipped_path("NVIDIA H200"))
    assert {row.part for row in rows} == set(PARTS)
    for row in rows:
        assert Route.parse(row.route).kind in ("library", "tma", "pointer", "narrow")
        # By choice never slower than the plain route.
        assert row.us <= row.library_us


def test_every_shipped_route_is_a_candidate_whose_resources_are_checked() -> None:
    for row in routes.read(routes.shipped_path("NVIDIA H200")):
        assert row.route == "library" or Route.parse(row.route) in [
            route for _, _, route in CANDIDATES[row.part]
        ]
