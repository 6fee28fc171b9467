"""The answer about a snapshot, against torch's own counters and the text of its error."""

from __future__ import annotations

import pytest

from drawn_snapshot import BLOCK, BUILD, DrawnSnapshot, recorded, truth
from foretrace.base.errors import TraceError
from foretrace.schema.documents.memory import MemoryDocument
from foretrace.show.overview.allocator import device_document, memory_document
from foretrace.show.render.memory_page import failed_text, page


def text_of(found: MemoryDocument) -> str:
    (head, *_) = page(found, top=5)
    return "\n".join([*head.paragraphs, *(f"{word} {text}" for word, text in head.labelled)])


def test_growth_is_what_torch_counts_from_step_to_step() -> None:
    counted = truth()["leak"]["bad"]["after_steps"]
    growth = device_document(recorded("leak")).growth
    assert growth is not None
    # torch counts in blocks of 512 bytes, three tensors a step
    assert 0 <= counted[-1] - counted[-2] - growth.bytes_per_step < 3 * 512
    assert (growth.steps, [line.name for line in growth.lines]) == (7, ["mem.py:71 in step"])
    assert device_document(recorded("ragged")).growth is None


def test_a_failed_allocation_has_the_numbers_of_the_error() -> None:
    """647.29 MiB allocated, 584.71 MiB reserved but unallocated, 256 MiB wanted."""
    found = device_document(recorded("oom"))
    assert found.failed is not None
    assert (found.failed.bytes, found.failed.line) == (256 << 20, "record.py:126 in part_memory")
    assert found.fragments is not None
    sizes = (found.fragments.live_bytes, found.fragments.free_bytes)
    assert [round(size / 2**20, 2) for size in sizes] == [647.29, 584.71]
    assert found.failed.device_free == 148_001_390_592  # 137.84 GiB: the process had a limit
    assert "a limit of this process" in failed_text(found)


def test_what_is_reserved_is_torchs_counter() -> None:
    found = device_document(recorded("ragged"))
    assert found.reserved_bytes == truth()["ragged"]["bad"]["peak_reserved"]


def test_the_reserve_comes_after_the_peak_unless_pieces_made_it_fail() -> None:
    ragged = [fix.name for fix in device_document(recorded("ragged")).fixes]
    assert ragged[-1] == "expandable_segments"
    assert ragged[0] == "checkpoint_blocks"
    assert device_document(recorded("oom")).fixes[0].name == "expandable_segments"


def test_the_first_lines_of_a_small_snapshot() -> None:
    drawn = DrawnSnapshot()
    drawn.segment(4000)
    drawn.alloc(1000, BUILD)
    drawn.free(drawn.alloc(600, BLOCK))
    assert text_of(memory_document(drawn.snapshot)).splitlines() == [
        "drawn.pickle · device 0 · 2 allocations, 4.00 us · stacks recorded",
        "PEAK 1.60 kB at 2.00 us, in the forward pass: parameters 1.00 kB, activations 600 B",
        "FRAGMENTS reserved 4.00 kB for a peak of 1.60 kB, 60.0% idle",
    ]


def test_free_blocks_are_unknown_where_the_source_does_not_list_them() -> None:
    """A trace states what is reserved, and not which blocks of it are free."""
    drawn = DrawnSnapshot()
    drawn.segment(4000)
    drawn.alloc(1000, BUILD)
    found = memory_document(drawn.snapshot)
    assert found.device.fragments is None
    assert "free block" not in text_of(found)
    listed = memory_document(recorded("ragged").snapshot)
    assert listed.device.fragments is not None
    assert "free blocks, the largest" in text_of(listed)


def test_one_allocation_is_one() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(1)
    assert " 1 allocation, " in text_of(memory_document(drawn.snapshot))


def test_a_snapshot_without_a_history_says_how_to_record_one() -> None:
    with pytest.raises(TraceError, match="no history"):
        memory_document(DrawnSnapshot().snapshot)
