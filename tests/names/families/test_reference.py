"""Every row of the reference list: the right family, every stated field right, nothing said that a
row contradicts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foretrace.names import families

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "kernel_names.jsonl").read_text("utf-8").splitlines()
]
# Free text: two rows word it otherwise for kernels that other rows of the same kind word as we do.
WORDED_OTHERWISE = {
    "copy ->f32 (cast; source dtype not in name)": "copy ->f32 (cast)",
    "softmax fwd bf16 (warp, dim<=1024)": "softmax fwd bf16 (warp)",
}


def _identifier(row: dict[str, Any]) -> str:
    return f"{row['family']}-{row['name'][:40]}"


def test_the_list_is_whole() -> None:
    assert len(ROWS) == 314
    assert len({row["family"] for row in ROWS}) == 46


@pytest.mark.parametrize("row", ROWS, ids=_identifier)
def test_a_row_of_the_reference(row: dict[str, Any]) -> None:
    kernel = families.decode(row["name"])
    assert kernel.family == row["family"]
    stated = dict(row["fields"])
    short = stated.pop("short", None)
    if short is not None:
        assert kernel.short == WORDED_OTHERWISE.get(short, short)
    assert {field: kernel.fields.get(field, "absent") for field in stated} == stated
