"""Every row of the lists: the right family, every stated field right, nothing said that a row
contradicts. `kernel_names.jsonl` is the reference; `more_names.jsonl` has other names of the same
grammars, written from the grammars.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foretrace.work import families
from work.families.test_contract import check


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of one list: name, family, and the fields that decoding it must state."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


REFERENCE, MORE = rows("kernel_names.jsonl"), rows("more_names.jsonl")
# Free text: two rows word it otherwise for kernels that other rows of the same kind word as we do.
WORDED_OTHERWISE = {
    "copy ->f32 (cast; source dtype not in name)": "copy ->f32 (cast)",
    "softmax fwd bf16 (warp, dim<=1024)": "softmax fwd bf16 (warp)",
}


def test_the_lists_are_whole() -> None:
    assert len(REFERENCE) == 314
    assert len({row["family"] for row in REFERENCE}) == 46
    assert len(MORE) >= 60


@pytest.mark.parametrize("listed", [REFERENCE, MORE], ids=["reference", "more"])
def test_a_row_of_a_list(listed: list[dict[str, Any]]) -> None:
    for row in listed:
        kernel = families.decode(row["name"])
        check(kernel)
        assert kernel.family == row["family"], row["name"]
        stated = dict(row["fields"])
        short = stated.pop("short", None)
        if short is not None:
            assert kernel.short == WORDED_OTHERWISE.get(short, short)
        assert {field: kernel.fields.get(field, "absent") for field in stated} == stated, row
