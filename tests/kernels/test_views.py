"""Views of strided tensors: the three dimensions cover exactly the elements of every tensor, in
step with each other.
"""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.kernels.device.apply import StridedView, view_of
from sweep import examples


def _addresses(view: StridedView, which: int) -> list[int]:
    outer, row, col = view.strides[which]
    indices = itertools.product(range(view.outer), range(view.rows), range(view.cols))
    return [a * outer + b * row + c * col for a, b, c in indices]


@settings(max_examples=examples(200))
@given(data=st.data())
def test_every_element_once_and_in_step(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=0, max_size=4))
    order = data.draw(st.permutations(range(len(shape))))
    steps = data.draw(st.lists(st.integers(1, 2), min_size=len(shape), max_size=len(shape)))
    base = torch.arange(4 ** max(len(shape), 1) * 2 ** len(shape) * 4)
    strided = base.as_strided(
        [s * step for s, step in zip(shape, steps, strict=True)], _dense(shape, steps)
    )
    strided = strided[tuple(slice(None, None, step) for step in steps)].permute(order)
    out = torch.empty_like(strided)
    view = view_of(tuple(strided.shape), (strided.stride(), out.stride()))
    if view is None:
        return
    pairs = set(zip(_addresses(view, 0), _addresses(view, 1), strict=True))
    wanted = set()
    for index in itertools.product(*(range(size) for size in strided.shape)):
        wanted.add(
            tuple(
                sum(i * s for i, s in zip(index, t.stride(), strict=True)) for t in (strided, out)
            )
        )
    assert pairs == wanted
    assert view.outer * view.rows * view.cols == strided.numel()


def _dense(shape: list[int], steps: list[int]) -> list[int]:
    sizes = [s * step for s, step in zip(shape, steps, strict=True)]
    return [torch.Size(sizes[axis + 1 :]).numel() for axis in range(len(sizes))]


def test_contiguous_is_one_row_and_packed_halves_are_rows() -> None:
    assert view_of((2, 3, 8), ((24, 8, 1), (24, 8, 1))) == StridedView(
        1, 1, 48, ((0, 0, 1), (0, 0, 1))
    )
    packed = view_of((5, 8), ((16, 1), (8, 1)))
    assert packed == StridedView(1, 5, 8, ((0, 16, 1), (0, 8, 1)))
    assert packed.divisible_by(8)
    assert not packed.divisible_by(16)


def test_a_transposed_pair_is_one_row() -> None:
    assert view_of((3, 4), ((1, 3), (1, 3))) == StridedView(1, 1, 12, ((0, 0, 1), (0, 0, 1)))
