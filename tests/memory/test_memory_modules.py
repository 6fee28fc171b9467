"""Modules of allocations: from a trace of the same run, and from the names of owners."""

from __future__ import annotations

from pathlib import Path

from corpus.builder import TraceBuilder
from drawn_snapshot import BLOCK, DrawnSnapshot
from foretrace.memory.from_trace import ENOUGH, module_names
from foretrace.trace.allocator.view import NO_MODULE
from memory.test_memory import Allocator
from opened_traces import open_made

STEPS, BLOCKS = 3, ENOUGH


def program() -> tuple[DrawnSnapshot, list[int]]:
    """Three steps, one allocation for each block; the addresses of the second step."""
    drawn, traced = DrawnSnapshot(), []
    for step in range(STEPS):
        made = [drawn.alloc(1_000 + block, BLOCK) for block in range(BLOCKS)]
        traced = made if step == 1 else traced
        if step < STEPS - 1:
            drawn.free(*made)
        drawn.step()
    return drawn, traced


def trace(tmp_path: Path, addresses: list[int]) -> TraceBuilder:
    built = TraceBuilder().host("python_function", "nn.Module: Net_0", 0, 100_000)
    written = Allocator(built)
    for block, address in enumerate(addresses):
        at = 1_000 + 5_000 * block
        built.host("python_function", f"nn.Module: Block_{block}", at, 4_000)
        built.op("aten::mm", at + 100, 2_000)
        written.event(at + 500, address, 1_024)
    return built


def test_the_recorded_step_names_the_modules_of_every_step(tmp_path: Path) -> None:
    drawn, addresses = program()
    view = drawn.view
    view.traced = module_names(view, open_made(trace(tmp_path, addresses), tmp_path))
    names = [view.module(row) for row in range(len(view.lives))]
    assert names == [f"Block_{block}" for block in range(BLOCKS)] * STEPS


def test_a_trace_of_another_run_names_nothing(tmp_path: Path) -> None:
    drawn, addresses = program()
    other = [address + 7 for address in addresses]
    assert module_names(drawn.view, open_made(trace(tmp_path, other), tmp_path)) == {}


def test_owners_are_named_by_their_block() -> None:
    drawn = DrawnSnapshot()
    weight, state, bias, free = (drawn.alloc(size) for size in (100, 200, 300, 400))
    drawn.owners = [
        [weight, 100, "parameter", "blocks.3.up.weight", "float32"],
        [state, 200, "optimizer", "blocks.3.up.weight.exp_avg", "float32"],
        [bias, 300, "parameter", "bias", "float32"],
    ]
    view = drawn.view
    named = dict(zip(view.lives.addr.tolist(), map(view.module, range(4)), strict=True))
    assert named == {weight: "blocks.3", state: "blocks.3", bias: NO_MODULE, free: NO_MODULE}
