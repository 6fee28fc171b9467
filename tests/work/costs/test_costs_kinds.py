"""Every cost module keeps the contract, gets its examples right, and survives any arguments."""

import importlib
import pkgutil
from collections.abc import Mapping

import pytest
import worked_examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.work import costs
from foretrace.work.costs import Cost, CostKind, Launch, OpCall
from foretrace.work.kernel import INEXACT
from sweep import examples, looped

MODULES = [
    importlib.import_module(f"{costs.__name__}.{info.name}")
    for info in pkgutil.iter_modules(costs.__path__)
    if not info.name.startswith("_")
]
KINDS: dict[str, tuple[CostKind, ...]] = {
    module.__name__.rpartition(".")[2]: module.KINDS
    for module in MODULES
    if hasattr(module, "KINDS")
}
EVERY = [kind for kinds in KINDS.values() for kind in kinds]
WORKED = {
    info.name: importlib.import_module(f"worked_examples.{info.name}")
    for info in pkgutil.iter_modules(worked_examples.__path__)
}
EXAMPLES = [pair for module in WORKED.values() for pair in module.EXAMPLES.items()]
SPLIT = [pair for module in WORKED.values() for pair in getattr(module, "SPLIT", {}).items()]
OPS = sorted({name for kind in EVERY for name in kind.prices})


def test_no_op_has_two_prices() -> None:
    names = [name for kind in EVERY for name in kind.prices]
    assert sorted(set(names)) == sorted(names)


@looped("kind", EVERY)
def test_every_kind_has_examples(kind: CostKind) -> None:
    assert any(_has(kind.prices, text) for text, _ in EXAMPLES)
    assert set(kind.shares) <= set(kind.prices)
    assert bool(kind.shares) == any(_has(kind.shares, text) for text, _ in SPLIT)


def test_the_examples_belong_to_a_kind() -> None:
    assert all(any(_has(kind.prices, text) for kind in EVERY) for text, _ in EXAMPLES)
    assert all(any(_has(kind.shares, text) for kind in EVERY) for text, _ in SPLIT)


def _has(table: Mapping[str, object], text: str) -> bool:
    op = text.partition("(")[0]
    return op in table or any(op.startswith(key[:-1]) for key in table if key.endswith("*"))


def test_the_examples_hold() -> None:
    for text, expected in EXAMPLES:
        assert costs.cost(worked_examples.call(text)) == expected, text


def attributed(call: OpCall, launches: list[Launch]) -> list[Cost | None]:
    return costs.attribute(
        call,
        [each.role for each in launches],
        [9] * len(launches),
        names=[each.name for each in launches],
        blocks=[each.blocks for each in launches],
    )


def test_the_examples_of_several_kernels_hold() -> None:
    for text, parts in SPLIT:
        # the first is longest
        carriers = sorted(parts, key=lambda launch: parts[launch].flops is None)
        found = attributed(worked_examples.call(text), carriers)
        assert found == [parts[launch] for launch in carriers], text


def test_a_call_without_shapes_has_no_cost() -> None:
    for name in OPS:
        found = costs.cost(OpCall(name))
        assert found is None or (found.flops is None and found.bytes is None), name


TYPES = ["", "float", "c10::BFloat16", "long int", "Scalar", "ScalarList", "TensorList"]
TYPES += ["c10::Float8_e4m3fn", "odd"]
SHAPE = st.lists(st.integers(-2, 5), max_size=5)
DIMS = st.one_of(
    SHAPE, st.lists(SHAPE, max_size=3), st.none(), st.text(max_size=2), st.integers(-1, 4)
)
TEXTS = st.sampled_from([
    "", "True", "False", "0", "1", "-1", "7", "0.5", "nan", "1e999", "-inf", "[]", "[1, 1]", "[0]",
    "[-1, 2]", "[True, False, True]", "[True, True]", "[1, x]",
])  # fmt: skip


@settings(max_examples=examples(600))
@given(
    name=st.sampled_from(
        [name.rstrip("*") + "x" if name.endswith("*") else name for name in OPS] + ["my::op"]
    ),
    dims=st.lists(DIMS, max_size=9),
    types=st.lists(st.sampled_from(TYPES), max_size=9),
    strides=st.lists(DIMS, max_size=9),
    concrete=st.lists(TEXTS, max_size=12),
)
def test_no_arguments_break_a_price(
    name: str, dims: list[object], types: list[str], strides: list[object], concrete: list[str]
) -> None:
    found = costs.cost(OpCall(name, dims, types, strides, concrete))
    known = (
        [] if found is None else [found.flops, found.bytes_read, found.bytes_written, found.bytes]
    )
    assert all(value is None or value >= 0 for value in known)


NAMES = sorted({launch.name for _, parts in SPLIT for launch in parts})
ROLES = ["gemm", "copy", "attention", ""]
LAUNCH = st.builds(
    Launch, st.sampled_from([*NAMES, "odd"]), st.sampled_from(ROLES), st.integers(-1, 9)
)


@settings(max_examples=examples(300))
@given(
    name=st.sampled_from(sorted({name.rstrip("*") for kind in EVERY for name in kind.shares})),
    dims=st.lists(DIMS, max_size=9),
    types=st.lists(st.sampled_from(TYPES), max_size=9),
    concrete=st.lists(TEXTS, max_size=12),
    launches=st.lists(LAUNCH, min_size=2, max_size=4),
)
def test_no_arguments_break_a_share(
    name: str, dims: list[object], types: list[str], concrete: list[str], launches: list[Launch]
) -> None:
    for found in attributed(OpCall(name, dims, types, (), concrete), launches):
        assert found is None or found.bytes is None or found.bytes >= 0
        assert found is None or found.bytes is None or found.certainty in INEXACT


NO_MODEL = Cost(None, None, None, costs.UNPRICED)


class TestWithoutAPrice:
    """Arguments may be used in part, and results may not be among them: no cost is stated."""

    def test_an_op_that_no_kind_prices(self) -> None:
        call = OpCall("my::op", [[8, 4], [4], []], ["float", "c10::Half", "Scalar"])
        assert costs.cost(call) == NO_MODEL

    def test_a_call_that_its_price_cannot_interpret(self) -> None:
        call = OpCall("aten::mm", [[8, 4], [5, 8]], ["float", "float"])
        assert costs.cost(call) == NO_MODEL

    def test_vectors_are_no_batch(self) -> None:
        call = worked_examples.call("aten::addbmm(f32[3] f32[5] f32[5])")
        assert costs.cost(call) == NO_MODEL

    @pytest.mark.parametrize("name", ["aten::mm", "aten::add"])
    def test_impossible_shapes_are_not_believed(self, name: str) -> None:
        found = costs.cost(OpCall(name, [[10**12, 10**12]] * 2, ["float"] * 2))
        assert found == Cost(None, None, None, "the recorded shapes exceed any memory")

    def test_an_unknown_element_type_leaves_bytes_unknown(self) -> None:
        found = costs.cost(worked_examples.call("triton_poi_fused_add_0(my::Float6[8] =8)"))
        assert found == Cost(None, None, None, "the size of an element type is not known")

    def test_a_triton_kernel_without_recorded_sizes_may_use_a_part(self) -> None:
        for name in ("triton_poi_fused_0", "triton_my_kernel"):
            found = costs.cost(OpCall(name, [[8]], ["float"]))
            assert found == Cost(None, None, None, "the kernel may use its arguments in part")
