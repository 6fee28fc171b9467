"""Kernels are launched as Triton does: a binary is kept per set of pointers off the 16-byte grid, and a
descriptor per place in memory.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

driver = pytest.importorskip("triton.backends.nvidia.driver")
launch = pytest.importorskip("foretrace.kernels.device.launch")


class _Matrix(NamedTuple):
    pointer: int

    def data_ptr(self) -> int:
        return self.pointer

    def element_size(self) -> int:
        return 2


class _Kernel(launch.JITFunction):
    """Compiled by `made`, a function of the arguments."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        return self.made


def _binary(launched: list[Any], kinds: list[Any]) -> SimpleNamespace:
    """As Triton 3.6 makes it: its launcher closes over the entry and the kinds of descriptors."""

    def wrapped(launcher: Any, tensordesc_meta: Any) -> Any:
        return lambda *arguments: launcher(tensordesc_meta, arguments)

    run = SimpleNamespace(
        launch=wrapped(lambda *arguments: launched.append(arguments), kinds),
        launch_cooperative_grid=False, launch_pdl=False, global_scratch_size=0,
    )  # fmt: skip
    return SimpleNamespace(run=run, function="function", packed_metadata="metadata")


def test_a_descriptor_is_made_once_for_each_place(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def make(at: Any, kind: str) -> list[Any]:
        made.append((kind, at.base.data_ptr(), at.shape))
        return [f"{kind} at {at.base.data_ptr()}", *at.shape, *at.strides]

    monkeypatch.setattr(launch, "_VERSION", (3, 6))
    monkeypatch.setattr(driver, "make_tensordesc_arg", make, raising=False)
    monkeypatch.setattr(launch, "_MOST_DESCRIBED", 1)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 1, raising=False)
    launched: list[Any] = []
    compiled: list[Any] = []

    def built(*arguments: Any) -> SimpleNamespace:
        compiled.append(arguments)
        return _binary(launched, ["left", "right"])

    variant = launch.Variant(_Kernel(built), ("fixed",), {})
    places = (
        launch.TmaPlace(0, (4, 8), (8, 1), (2, 2)),
        launch.TmaPlace(1, (4, 4), (8, 1), (2, 2), 4),
    )
    run = variant.bound_to(7, 0, places, (5,), lambda tensor, place: (tensor, place), 1)
    near, far, counts = _Matrix(16), _Matrix(32), _Matrix(64)
    for _ in range(3):
        run(near, far, counts)
    assert compiled == [((near, places[0]), (far, places[1]), counts, 5, "fixed")]
    assert made == [("left", 16, (4, 8)), ("right", 40, (4, 4))]  # four elements further on
    head = (7, 1, 1, 1, "function", False, False, None, None, "metadata", None, None, None)
    left, right = ("left at 16", 4, 8, 8, 1), ("right at 40", 4, 4, 8, 1)
    assert launched == [(*head, *left, *right, 64, 5, "fixed")] * 2
    run(far, far, counts)  # few are kept
    run(near, far, counts)
    assert [kind for kind, _, _ in made[2:]] == ["left", "left"]
    assert launched[-1] == launched[0]


def test_what_triton_did_not_lower_to_tma_goes_through_triton(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "_VERSION", (3, 6))
    assert launch._described_launcher(_binary([], [None])) is None
    monkeypatch.setattr(launch, "_VERSION", (3, 7))
    assert launch._described_launcher(_binary([], ["left"])) is None


def test_a_binary_is_kept_for_each_set_of_pointers_off_the_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[tuple[int, ...]] = []
    launched: list[tuple[str, Any]] = []

    def run(*arguments: Any) -> str:
        compiled.append(tuple(a.data_ptr() % 16 for a in arguments if isinstance(a, Tensor)))
        return f"binary {len(compiled)}"

    def launcher(binary: str) -> Any:
        return lambda grid, stream, arguments: launched.append((binary, arguments))

    monkeypatch.setattr(launch, "_launcher", launcher)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
    variant = launch.Variant(_Kernel(run), ("fixed",), {})
    memory = torch.zeros(64, dtype=torch.int16)
    memory = memory[-memory.data_ptr() % 16 // 2 :]
    on, off = memory, memory[1:]
    for left, right in ((on, on), (on, off), (off, off), (on, off), (on, on)):
        variant.launch(1, (left, right), (5,))
    assert compiled == [(0, 0), (0, 2), (2, 2)]
    pointers = on.data_ptr(), off.data_ptr()
    again = [("binary 2", (*pointers, 5, "fixed")), ("binary 1", (pointers[0],) * 2 + (5, "fixed"))]
    assert launched == again
    bound = variant.bound(1, -1, (5,))
    bound(on, on)
    variant.bound(1, -1, (5,), aligned=False)(on, off)
    assert launched[2:] == [again[1], again[0]]
