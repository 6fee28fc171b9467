"""The loader fixes: what loaders are made with, and which copies wait. The GPU is made up."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from foretrace.record.tries.applied import applied  # noqa: E402
from foretrace.record.tries.applied.waiting import AHEAD, WORKERS  # noqa: E402
from foretrace.record.tries.session import Session  # noqa: E402

pytestmark = pytest.mark.torch
DATA = list(range(8))


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the switches replace comes back after the test."""
    monkeypatch.setattr(DataLoader, "__init__", DataLoader.__init__)
    for name in ("to", "cuda"):
        monkeypatch.setattr(torch.Tensor, name, getattr(torch.Tensor, name))


def made(on: bool, **options: Any) -> tuple[Any, Any]:
    switch = applied()["loader_workers"](Session(__file__))
    switch.turn(on)
    return DataLoader(DATA, **options), switch


def test_a_loader_without_workers_gets_some() -> None:
    loader, switch = made(on=False)
    assert (loader.num_workers, switch.why_not()) == (0, "")
    loader, switch = made(on=True)
    assert (loader.num_workers, loader.persistent_workers) == (WORKERS, True)
    assert loader.prefetch_factor == 2


def test_a_loader_with_workers_loads_further_ahead() -> None:
    loader, switch = made(on=False, num_workers=1)
    assert (loader.prefetch_factor, switch.why_not()) == (2, "")
    loader, _ = made(on=True, num_workers=1)
    assert (loader.num_workers, loader.prefetch_factor) == (WORKERS, AHEAD)
    loader, switch = made(on=True, num_workers=WORKERS + 1, prefetch_factor=AHEAD + 1)
    assert (loader.num_workers, loader.prefetch_factor) == (WORKERS + 1, AHEAD + 1)
    assert switch.why_not() == "the loader has workers already"


class Pinned:
    """A pinned tensor, and what its copies are made with."""

    device = torch.device("cpu")
    is_cuda = True

    def __init__(self) -> None:
        self.copies: list[Any] = []

    def is_pinned(self) -> bool:
        return True


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The switch, and a `to` that notes how it was called."""

    def to(tensor: Any, *arguments: Any, **options: Any) -> Any:
        tensor.copies.append((arguments, options))
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(Session, "device", "cuda")
    return applied()["pinned_loader"](Session(__file__))


def test_a_copy_from_pinned_memory_need_not_wait(copied: Any) -> None:
    tensor: Any = Pinned()
    torch.Tensor.to(tensor, "cuda")
    assert copied.why_not() == ""
    copied.turn(True)
    torch.Tensor.to(tensor, "cuda")
    torch.Tensor.to(tensor, "cuda", torch.float32, False)
    first, second, third = tensor.copies
    assert first == (("cuda",), {})
    assert second == (("cuda",), {"non_blocking": True})
    assert third == (("cuda", torch.float32, False), {})


def test_copies_that_do_not_wait_need_no_fix(copied: Any) -> None:
    assert copied.why_not() == "no DataLoader"
    DataLoader(DATA, pin_memory=True)
    torch.Tensor.to(Pinned(), "cuda", non_blocking=True)  # type: ignore[arg-type]
    assert copied.why_not() == "batches are pinned, and no copy waits"
    DataLoader(DATA)
    assert copied.why_not() == ""
