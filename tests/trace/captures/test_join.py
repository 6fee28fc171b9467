"""Which captured launch a replayed kernel gets, and when it gets none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graph_traces import LAYER, Node, Written, captured, replayed, stepped

import foretrace as ft
from foretrace.look import summarize
from foretrace.pages.export.publish import Folder, copies

COPY: Node = ("Memcpy DtoD (Device -> Device)", "aten::copy_", [[8, 64]])


def joined(folder: Path, replay: Written, *captures: Written) -> ft.Trace:
    for at, capture in enumerate(captures):
        capture.save(folder / "captures" / f"{at}.json.gz")
    return ft.open(replay.save(folder / "run.json.gz"), cache=False)


def both(folder: Path, capture: Sequence[Node], replay: Sequence[Node], **more: Any) -> ft.Trace:
    """One capture and one replay of it; `named` is for the capture, the rest for the replay."""
    first, second = Written(), Written()
    captured(first, capture, named=more.pop("named", False))
    replayed(second, replay, **more)
    return joined(folder, second, first)


def ops(trace: ft.Trace) -> list[str]:
    host = trace.origins.host
    return [host.names[host.name[op]] if op >= 0 else "" for op in trace.origins.op.tolist()]


def written(nodes: Sequence[Node]) -> list[str]:
    return [op for _, op, _ in nodes]


def notes(trace: ft.Trace, code: str) -> list[str]:
    return [note.text for note in trace.ledger.notes if note.code == code]


def test_another_order_of_copies_is_refused(tmp_path: Path) -> None:
    trace = both(tmp_path, [LAYER[0], COPY, *LAYER[1:]], [COPY, *LAYER])
    assert ops(trace) == [""] * 4
    assert notes(trace, "capture_left_out") == [
        "0.json.gz: copies and kernels come in another order than in the replay"
    ]


def test_ops_that_contradict_the_kernels_are_refused(tmp_path: Path) -> None:
    trace = both(tmp_path, LAYER[1:] + LAYER[:1], LAYER)
    assert ops(trace) == [""] * 3
    assert notes(trace, "capture_mismatch") == [
        "3 of 3 replayed GPU events fit no capture of their graph: their ops are unknown"
    ]


def test_a_grid_of_other_sizes_is_refused(tmp_path: Path) -> None:
    large = [(kernel, op, [[4096, 64] for _ in sizes]) for kernel, op, sizes in LAYER]
    trace = both(tmp_path, large, LAYER)
    assert ops(trace) == [""] * 3
    assert "other sizes" in notes(trace, "capture_left_out")[0]


def test_names_outweigh_the_number_of_nodes(tmp_path: Path) -> None:
    """One fill that the replay lacks does not cost the other kernels their ops."""
    nodes = [(f"kernel_{at}", f"op_{at}", [[8]]) for at in range(20)]
    assert ops(
        both(tmp_path, [*nodes[:7], ("fill", "aten::zero_", [[8]]), *nodes[7:]], nodes, named=True)
    ) == written(nodes)


def test_streams_in_any_order_are_told_by_names_with_one_meaning(tmp_path: Path) -> None:
    nodes = [("a", "op_a", [[8]]), ("b", "op_b", [[8]]), ("a", "op_c", [[8]])]
    assert ops(both(tmp_path, nodes, nodes, streams=(7, 8), named=True)) == ["", "op_b", ""]


def test_numbers_of_nodes_give_the_order(tmp_path: Path) -> None:
    nodes = [LAYER[2], LAYER[0], LAYER[1]]
    assert ops(both(tmp_path, LAYER, nodes, streams=(7, 8), graph=5, numbers=(3, 1, 2))) == written(
        nodes
    )


def test_pieces_are_replayed_in_the_order_of_their_captures(tmp_path: Path) -> None:
    capture, replay = Written(), Written()
    for layer in range(3):
        captured(capture, LAYER, module=f"Layer_{layer}")
    for step in range(2):
        start = replay.now
        for _ in range(3):
            replayed(replay, LAYER)
        stepped(replay, step, start)
    trace = joined(tmp_path, replay, capture)
    modules = [
        trace.origins.host.names[trace.origins.host.name[own]] for own in trace.module_calls.own
    ]
    assert modules == [f"nn.Module: Layer_{layer}" for layer in range(3) for _ in LAYER] * 2


def test_pieces_without_turns_keep_what_they_agree_on(tmp_path: Path) -> None:
    """Equal pieces outside steps: without modules they say the same, with modules they do not."""
    for folder, module, expected in (("same", "", written(LAYER)), ("other", "Layer_", [""] * 3)):
        capture, replay = Written(), Written()
        for layer in range(2):
            captured(capture, LAYER, module=module and f"{module}{layer}")
        replayed(replay, LAYER)
        assert ops(joined(tmp_path / folder, replay, capture)) == expected


def test_batches_are_padded_to_the_next_captured_size(tmp_path: Path) -> None:
    capture, replay = Written(), Written()
    for size in (4, 8, 16):
        nodes = [(kernel, op, [[size, 64] for _ in sizes]) for kernel, op, sizes in LAYER]
        captured(capture, nodes, label=f"capture_{size}_FULL")
    for size in (3, 8, 40):
        replayed(replay, LAYER, label=f"execute_{size}_context_0(sq0)_generation_{size}(sq{size})")
    trace = joined(tmp_path, replay, capture)
    arguments = [trace.origins.arguments.of(op) for op in trace.origins.op.tolist()]
    first = [each.dims[0] if each else None for each in arguments]
    assert first == [[4, 64]] * 3 + [[8, 64]] * 3 + [None] * 3


def test_other_threads_launch_into_a_graph(tmp_path: Path) -> None:
    """Autograd's thread makes nodes as well; what ran at once has a GPU event, and is no node."""
    capture, replay = Written(), Written()
    captured(capture, LAYER)
    last, begin = capture.events[-3:-1], capture.events[0]["ts"]
    for event in last:
        event["tid"] = 2
    copy = {"correlation": 9, "device": 0, "stream": 3}
    capture.now = begin + 2.1
    capture.add("cuda_runtime", "cudaMemcpyAsync", 0.1, tid=3, args={"correlation": 9})
    capture.add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", pid=0, tid=3, args=copy)
    replayed(replay, LAYER)
    assert ops(joined(tmp_path, replay, capture)) == written(LAYER)


def test_a_damaged_capture_is_one_line_and_the_first_screen_says_so(tmp_path: Path) -> None:
    capture, replay = Written(), Written()
    captured(capture, LAYER)
    replayed(replay, LAYER)
    (tmp_path / "captures").mkdir()
    whole = capture.save(tmp_path / "whole.json.gz").read_bytes()
    (tmp_path / "captures" / "cut.json.gz").write_bytes(whole[: len(whole) // 2])
    trace = ft.open(replay.save(tmp_path / "run.json.gz"), cache=False)
    (line,) = notes(trace, "capture_left_out")
    assert line.startswith("cut.json.gz: ")
    assert "captures: 3 of 3 replayed GPU events fit no capture" in summarize(trace).notes


def test_a_shared_copy_takes_the_captures_along(tmp_path: Path) -> None:
    """Its replays had no ops, and ROCm's launches no kernels: another bound than the trace."""
    capture, replay = Written(), Written()
    captured(capture, LAYER, named=True)
    capture.events[1]["args"] |= {"Concrete Inputs": ["", "99999999"]}
    capture.events[4]["args"] |= {"Input Dims": [[131072, 64]], "Concrete Inputs": ["8388608"]}
    replayed(replay, LAYER)
    capture.save(tmp_path / "captures" / "alice_bs_8_rank0.json.gz")
    trace = ft.open(replay.save(tmp_path / "run.json.gz"), cache=False)
    (shared,) = copies(str(tmp_path / "run.json.gz"), Folder(tmp_path / "out"))
    copy = ft.open(shared.place, cache=False)
    (beside,) = Path(shared.place.replace(".json.gz", ".captures")).iterdir()
    assert beside.name == "capture_00_bs_8_rank0.json.gz"
    assert ops(copy) == ops(trace) == written(LAYER)
    assert copy.captures[0].tables["launches"].equals(trace.captures[0].tables["launches"])
    values = [each.concrete for each in copy.captures[0].arguments.signatures]
    assert ["8388608"] in values
    assert "99999999" not in str(values)
