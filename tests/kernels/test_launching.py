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


class _Place(NamedTuple):
    base: _Matrix
    shape: tuple[int, int]
    strides: tuple[int, int]


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

    def make(place: _Place, kind: str) -> list[Any]:
        made.append((place, kind))
        return [f"{kind} at {place.base.pointer}", *place.shape, *place.strides]

    monkeypatch.setattr(launch, "_VERSION", (3, 6))
    monkeypatch.setattr(driver, "make_tensordesc_arg", make, raising=False)
    monkeypatch.setattr(launch, "_MOST_DESCRIBED", 3)
    launched: list[Any] = []
    run = launch._described_launcher(_binary(launched, ["left", "right"]))
    near, far = _Place(_Matrix(16), (4, 8), (8, 1)), _Place(_Matrix(32), (4, 8), (8, 1))
    for _ in range(2):
        run(7, 1, ((near, far), (5, "fixed")))
    assert made == [(near, "left"), (far, "right")]
    head = (7, 1, 1, 1, "function", False, False, None, None, "metadata", None, None, None)
    left, right = ("left at 16", 4, 8, 8, 1), ("right at 32", 4, 8, 8, 1)
    assert launched == [(*head, *left, *right, 5, "fixed")] * 2
    # another shape at the same address is another descriptor; few are kept
    wider = _Place(_Matrix(16), (4, 16), (16, 1))
    run(7, 1, ((wider, near), (5, "fixed")))
    assert [kind for _, kind in made[2:]] == ["left", "right"]
    run(7, 1, ((near, far), (5, "fixed")))
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

    class Kernel(launch.JITFunction):
        def __init__(self) -> None: ...

        def __getitem__(self, grid: tuple[int, int, int]) -> Any:
            def run(*arguments: Any) -> str:
                places = [a.data_ptr() % 16 for a in arguments if isinstance(a, Tensor)]
                compiled.append(tuple(places))
                return f"binary {len(compiled)}"

            return run

    def launcher(binary: str) -> Any:
        return lambda grid, stream, arguments: launched.append((binary, arguments))

    monkeypatch.setattr(launch, "_launcher", launcher)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
    variant = launch.Variant(Kernel(), ("fixed",), {})
    memory = torch.zeros(64, dtype=torch.int16)
    memory = memory[-memory.data_ptr() % 16 // 2 :]
    on, off = memory, memory[1:]
    for left, right in ((on, on), (on, off), (off, off), (on, off), (on, on)):
        variant.launch(1, (left, right), (5,))
    assert compiled == [(0, 0), (0, 2), (2, 2)]
    pointers = on.data_ptr(), off.data_ptr()
    again = [("binary 2", (*pointers, 5, "fixed")), ("binary 1", (pointers[0],) * 2 + (5, "fixed"))]
    assert launched == again
