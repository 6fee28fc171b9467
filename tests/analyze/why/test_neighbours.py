"""Who shares data with whom, on nodes made by hand."""

from __future__ import annotations

from foretrace.analyze.why.neighbours import NodeOrder, neighbours, returns
from foretrace.schema.compiler import NamedTensor, SchedulerNode

BIG = 1 << 20  # elements


def _tensor(name: str, size: int = BIG) -> NamedTensor:
    return NamedTensor(name, "f32", (size,), (1,))


def _node(
    name: str, reads: str, writes: str, kind: str = "pointwise", **more: object
) -> SchedulerNode:
    made = tuple(_tensor(each) for each in writes.split())
    read, written = tuple(reads.split()), tuple(writes.split())
    return SchedulerNode(name, kind, read, written, tensors=made, **more)  # type: ignore[arg-type]


def _found(*nodes: SchedulerNode) -> list[tuple[str, str, int | None, int | None]]:
    inputs = [_tensor("x"), _tensor("small", 8)]
    return [
        (each.a.name, each.b.name, each.written, each.read) for each in neighbours(nodes, inputs)
    ]


def test_a_buffer_is_written_for_nobody_else() -> None:
    assert _found(_node("op0", "x", "a"), _node("op1", "a", "b")) == [
        ("op0", "op1", 4 * BIG, 4 * BIG)
    ]


def test_a_second_reader_or_the_caller_needs_the_buffer() -> None:
    first = _node("op0", "x", "a")
    two = _found(first, _node("op1", "a", "b"), _node("op2", "a", "c"))
    assert two == [("op0", "op1", 0, 4 * BIG), ("op0", "op2", 0, 4 * BIG)]
    returned = _node("op0", "x", "a", returned=("a",))
    assert _found(returned, _node("op1", "a", "b")) == [("op0", "op1", 0, 4 * BIG)]


def test_an_input_that_several_read() -> None:
    nodes = [_node(f"op{at}", "x small", f"a{at}") for at in range(3)]
    assert [each[:2] for each in _found(*nodes)] == [("op0", "op1"), ("op1", "op2")]


def test_a_concatenation_and_the_results_of_a_call_are_seen_through() -> None:
    joined = _found(
        _node("op0", "x", "a"), _node("op1", "x", "b"),
        _node("op2", "a b", "c", "nop"), _node("op3", "c", "d"),
    )  # fmt: skip
    assert [each[:2] for each in joined] == [("op0", "op1"), ("op0", "op3"), ("op1", "op3")]
    sort = _found(
        _node("op0", "x", "a", "extern"), _node("op1", "a", "b", "unpack"), _node("op2", "b", "c")
    )
    assert sort == [("op0", "op2", 4 * BIG, 4 * BIG)]


def test_a_slice_reads_less_than_the_whole() -> None:
    reader = _node("op1", "a", "b", index=(("a", "c0 + 5, {c0: 100}"),))
    assert _found(_node("op0", "x", "a"), reader) == [("op0", "op1", 4 * BIG, 400)]


def test_a_kernel_in_between() -> None:
    first, last = _node("op0", "x", "a"), _node("op3", "a c", "d")
    middle = _node("op1", "a", "c", "extern")
    assert NodeOrder([first, middle, last]).between(first, last)
    assert not NodeOrder([first, _node("op1", "x", "c"), last]).between(first, last)
    assert not NodeOrder([first, _node("op1", "a", "c", "unpack"), last]).between(first, last)


def test_what_a_wrapper_returns() -> None:
    code = (
        "def call(args):\n    return (buf1, reinterpret_tensor(buf0, (8, 4), (4, 1), 0), None, )\n"
    )
    assert returns(code) == ("buf1", "buf0", "")
    assert returns("") == ()
