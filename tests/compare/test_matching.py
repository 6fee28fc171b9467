"""Which kernel is which: the rules one by one, on kernels with nothing else about them."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foretrace.compare.changes import compare_kernels, spent, work_changes
from foretrace.compare.documents import LaunchConfig
from foretrace.compare.measure import Sample
from foretrace.compare.sides import Kernel
from foretrace.work.kernel_row import KernelRow
from sweep import examples

ROW = KernelRow(name="k", short="k", role="pointwise", family="aten_elementwise", shapes="[[8]]")
PLAIN = Kernel(
    ROW,
    LaunchConfig("[1,1,1]", "[128,1,1]", 32, 0),
    "aten::k",
    ("aten::k",),
    None,
    8,
    4,
    False,
    Sample(1_000, 32),
    True,
    1_000,
)


def other(launch: Kernel, **more: Any) -> Kernel:
    """A launch with something else about it, or about its kernel."""
    own = {
        name: more.pop(name)
        for name in [*more]
        if name in ("name", "short", "role", "family", "shapes")
    }
    return replace(launch, kernel=replace(launch.kernel, **own), **more)


def kernel(op: str, role: str = "pointwise", **more: Any) -> Kernel:
    name = more.pop("name", op)
    called = {"op": f"aten::{op}", "path": (f"aten::{op}",)}
    return other(PLAIN, **{**called, "name": name, "short": name, "role": role, **more})


def gemm(name: str = "gemm", **more: Any) -> Kernel:
    return kernel("mm", "gemm", name=name, family="nvjet", flops=1_000, **more)


def counts(a: list[Kernel], b: list[Kernel]) -> tuple[int, int, int, int]:
    table = compare_kernels(a, b)
    same, changed, removed, added = (
        sum(row.count for row in rows)
        for rows in (table.same, table.changed, table.removed, table.added)
    )
    return same, changed, removed, added


def test_the_name_alone_is_not_enough() -> None:
    launched = replace(PLAIN, config=replace(PLAIN.config, registers=40))
    (row,) = compare_kernels([PLAIN], [launched]).changed
    assert row.why == ("registers 32 to 40",)
    (row,) = compare_kernels([PLAIN], [other(PLAIN, shapes="[[9]]")]).changed
    assert row.why == ("other shapes",)


def test_shapes_count_only_where_both_recorded_them() -> None:
    assert counts([PLAIN, PLAIN], [other(PLAIN, shapes=None, op=None, path=())] * 2) == (
        2,
        0,
        0,
        0,
    )


def test_a_surplus_is_removed_and_the_rest_is_the_same() -> None:
    assert counts([PLAIN] * 3, [PLAIN]) == (1, 0, 2, 0)


def test_another_kernel_for_the_same_op_is_changed() -> None:
    (row,) = compare_kernels([gemm("cutlass")], [gemm("tensile")]).changed
    assert row.why == ("another kernel",)


def test_a_matmul_under_another_op_is_found_by_its_flops() -> None:
    added = other(gemm("badd"), op="aten::addmm", path=("aten::addmm",), shapes="[[8],[8],[8]]")
    (row,) = compare_kernels([gemm("bz")], [added]).changed
    assert row.why == ("another kernel", "other shapes", "op aten::mm to aten::addmm")


def test_one_pointwise_kernel_in_the_same_place() -> None:
    assert counts(
        [gemm("x"), kernel("relu"), gemm("y")], [gemm("x"), kernel("silu"), gemm("y")]
    ) == (2, 1, 0, 0)


def test_a_bias_in_the_epilogue() -> None:
    fused = other(
        gemm("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"),
        op="aten::addmm",
        path=("aten::addmm",),
        bytes=10,
    )
    plain = [gemm("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_TNT"), kernel("add")]
    (fusion,) = compare_kernels(plain, [fused]).fusions
    assert (fusion.replaces, fusion.sign, fusion.bytes_saved) == (
        ("aten::mm", "aten::add"),
        "epilogue",
        6,
    )


def test_a_triton_kernel_in_the_place_of_two() -> None:
    theirs = kernel("mine", family="user_triton", bytes=10)
    table = compare_kernels(
        [gemm(), kernel("gelu"), kernel("mul"), gemm("down")], [gemm(), theirs, gemm("down")]
    )
    (fusion,) = table.fusions
    assert (fusion.kernel, fusion.replaces, fusion.sign, fusion.bytes_saved) == (
        "mine",
        ("aten::gelu", "aten::mul"),
        "place",
        6,
    )
    assert [row.why for row in table.removed] == [("fused into mine",), ("fused into mine",)]


def test_a_crowded_place_says_nothing() -> None:
    """Two programs with hardly a kernel in common: nothing is said to stand for anything."""
    old = [kernel(f"old{n}") for n in range(20)]
    new = [kernel(f"new{n}", family="user_triton") for n in range(20)]
    assert compare_kernels(old, new).fusions == ()


def test_an_inductor_kernel_names_what_it_took_up() -> None:
    inductor = kernel(
        "t", name="triton_poi_fused_gelu_mul_0", family="inductor_triton", bytes=8, estimated=True
    )
    table = compare_kernels([kernel("gelu"), kernel("tanh"), kernel("mul")], [inductor])
    (fusion,) = table.fusions
    assert fusion.replaces == ("aten::gelu", "aten::mul")  # tanh is not in the name
    assert (fusion.kernels, fusion.ns_saved) == (3, 2_000)
    assert (spent(table.parts[0].a), spent(table.parts[0].b)) == (3_000, 1_000)
    # what gelu and tanh wrote, once written and once read
    assert fusion.bytes_saved == 16


def test_one_for_one_is_no_fusion() -> None:
    inductor = kernel("t", name="triton_poi_fused_gelu_0", family="inductor_triton")
    table = compare_kernels([kernel("gelu")], [inductor])
    assert (table.fusions, len(table.changed)) == ((), 1)


SOME = [
    kernel("gelu"),
    kernel("mul"),
    gemm("up"),
    gemm("down"),
    kernel("add", family="user_triton"),
    kernel("t", name="triton_poi_fused_gelu_mul_0", family="inductor_triton"),
    kernel("sdpa", "attention"),
    other(PLAIN, shapes=None, op=None, path=()),
]


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(SOME), max_size=12), st.lists(st.sampled_from(SOME), max_size=12))
# pairs that read the same from both ends
@example([SOME[0], SOME[1], SOME[2]], [SOME[2], SOME[0], SOME[0], SOME[7]])
def test_any_two_sequences_mirror_and_lose_nothing(a: list[Kernel], b: list[Kernel]) -> None:
    there, back = compare_kernels(a, b), compare_kernels(b, a)
    assert there.fusions == back.undone
    assert there.undone == back.fusions
    for ours, theirs in (
        ("same", "same"),
        ("changed", "changed"),
        ("removed", "added"),
        ("added", "removed"),
    ):
        assert sorted(
            (repr(row.a), repr(row.b), row.count) for row in getattr(there, ours)
        ) == sorted((repr(row.b), repr(row.a), row.count) for row in getattr(back, theirs))
    both = sum(row.count for row in (*there.same, *there.changed))
    assert both + sum(row.count for row in there.removed) == len(a)
    assert both + sum(row.count for row in there.added) == len(b)


@given(st.lists(st.sampled_from(SOME), max_size=15))
def test_a_sequence_equals_itself(a: list[Kernel]) -> None:
    assert counts(a, list(a)) == (len(a), 0, 0, 0)


def test_work_that_takes_no_time_has_a_name_where_it_is_new() -> None:
    """A memset of 0 ns is no kernel: neither kernels nor time say which side has the name."""
    memset = kernel("fill_", "memset", ns=Sample(0, 0), length_ns=0, group="fills")
    (row,) = work_changes(compare_kernels([], [memset]), 1e4)
    assert row.fate == "added"
