"""Texts of OutOfMemoryErrors, as torch 1.3 to 2.13 write them, and what they mean."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest

from foretrace.base.errors import TraceError
from foretrace.cli import main
from foretrace.memory.oom import out_of_memory_document, read_oom_text

MIB, GIB = 1 << 20, 1 << 30
ADVICE = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF="
    "expandable_segments:True to avoid fragmentation.  See documentation for Memory Management"
)
OLD = "CUDA out of memory. Tried to allocate {} (GPU 0; {} total capacity; {} already allocated; "
NEW = "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is free. "
CASES = {
    "1.3": (
        OLD.format("20.00 MiB", "7.79 GiB", "6.91 GiB") + "10.94 MiB free; 20.00 MiB cached)",
        "full",
    ),
    "1.13 in fragments": (
        OLD.format("376.00 MiB", "3.95 GiB", "1.72 GiB")
        + "354.88 MiB free; 2.46 GiB reserved in total by PyTorch) If reserved memory is >> allocated"
        " memory try setting max_split_size_mb to avoid fragmentation.",
        "fragments",
    ),
    "2.0 of another process": (
        OLD.format("984.00 MiB", "47.50 GiB", "22.15 GiB")
        + "68.88 MiB free; 22.16 GiB reserved in total by PyTorch)",
        "other processes",
    ),
    "2.1 with its misspelling": (
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 14.75 GiB of"
        " which 17.06 MiB is free. Process 12345 has 14.73 GiB memory in use. Of the allocated"
        " memory 14.50 GiB is allocated by PyTorch, and 1.20 MiB is reserved by PyTorch but"
        " unallocated.",
        "full",
    ),
    "2.4 in a container with a neighbour": (
        NEW.format("1.25 GiB", "93.02 GiB", "0.20 GiB")
        + "Process 27 has 40.00 GiB memory in use. Process 28 has 52.82 GiB memory in use. Of the"
        " allocated memory 51.63 GiB is allocated by PyTorch, and 120.54 MiB is reserved by PyTorch"
        " but unallocated." + ADVICE,
        "other processes",
    ),
    "2.5 with private pools": (
        NEW.format("2.00 GiB", "79.11 GiB", "1.02 GiB")
        + "Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated"
        " memory 76.90 GiB is allocated by PyTorch, with 3.10 GiB allocated in private pools (e.g.,"
        " CUDA Graphs), and 312.00 MiB is reserved by PyTorch but unallocated." + ADVICE,
        "full",
    ),
    "2.11 with a limit": (
        NEW.format("256.00 MiB", "139.80 GiB", "137.84 GiB")
        + "Including non-PyTorch memory, this process has 1.96 GiB memory in use. 1.40 GiB allowed;"
        " Of the allocated memory 647.29 MiB is allocated by PyTorch, and 584.71 MiB is reserved by"
        " PyTorch but unallocated." + ADVICE,
        "fragments",
    ),
    "a wrong shape": (
        NEW.format("130206.04 GiB", "23.56 GiB", "16.57 GiB")
        + "Including non-PyTorch memory, this process has 6.97 GiB memory in use. Of the allocated"
        " memory 5.45 GiB is allocated by PyTorch, and 1.17 GiB is reserved by PyTorch but"
        " unallocated.",
        "too large",
    ),
    "XPU": (
        "XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.91 GiB of"
        " which 1.00 GiB is free. Of the allocated memory 14.51 GiB is allocated by PyTorch, and"
        " 15.90 MiB is reserved by PyTorch but unallocated. Please use `empty_cache`",
        "full",
    ),
    "MPS": (
        "MPS backend out of memory (MPS allocated: 5.05 GiB, other allocations: 2.29 GiB, max"
        " allowed: 6.77 GiB). Tried to allocate 1024.00 MiB on private pool.",
        "full",
    ),
}


@pytest.mark.parametrize(("text", "cause"), CASES.values(), ids=CASES)
def test_every_wording_is_understood(text: str, cause: str) -> None:
    found = out_of_memory_document(read_oom_text("torch.OutOfMemoryError: " + text))
    assert found.cause == cause
    helps = "lets pieces grow together" in found.next[0]
    assert helps is (cause == "fragments")


def test_the_numbers_of_both_forms() -> None:
    old = read_oom_text(CASES["1.13 in fragments"][0])
    assert (old.wanted_bytes, old.free_bytes) == (376 * MIB, round(354.88 * MIB))
    assert (old.total_bytes, old.allocated_bytes) == (round(3.95 * GIB), round(1.72 * GIB))
    assert old.unallocated_bytes == round(2.46 * GIB) - round(1.72 * GIB)
    new = read_oom_text(CASES["2.5 with private pools"][0])
    assert (new.process_bytes, new.other_bytes) == (round(78.08 * GIB), 0)
    assert (new.private_bytes, new.unallocated_bytes) == (round(3.10 * GIB), 312 * MIB)
    neighbour = read_oom_text(CASES["2.4 in a container with a neighbour"][0])
    assert (neighbour.process_bytes, neighbour.other_bytes) == (round(52.82 * GIB), 40 * GIB)
    assert read_oom_text(CASES["2.11 with a limit"][0]).allowed_bytes == round(1.40 * GIB)


def test_a_traceback_names_the_users_line_and_wrapped_lines_are_joined() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/home/me/train.py", line 12, in step\n'
        '  File "/usr/lib/python3.12/site-packages/torch/nn/functional.py", line 9, in linear\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to\nallocate 20.00 MiB. GPU 1 has a total"
        "\ncapacity of 8.00 GiB of which 0 bytes is free."
    )
    found = read_oom_text(text)
    assert (found.line, found.device) == ("train.py:12 in step", "GPU 1")
    assert (found.total_bytes, found.free_bytes) == (8 * GIB, 0)


@pytest.mark.parametrize("text", ["", "hello", "CUDA error: out of memory", "\0" * 50, "9" * 9999])
def test_another_text_is_one_clear_line(text: str) -> None:
    with pytest.raises(TraceError, match="no text of an OutOfMemoryError"):
        read_oom_text(text)


def test_the_command_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def given(text: str) -> None:
        buffer = io.BufferedReader(io.BytesIO(text.encode()))  # type: ignore[arg-type]
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer, isatty=lambda: False))

    given(CASES["a wrong shape"][0])
    assert main(["memory", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "too large"
    given(CASES["2.11 with a limit"][0])
    assert main(["memory", "-"]) == 0
    assert "DO FIRST  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in capsys.readouterr().out
    given("no error")
    assert main(["memory", "-"]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1
