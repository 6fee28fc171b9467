"""Fixes written into a script's source."""

from __future__ import annotations

import pytest

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.tournament import changed_lines, diff, line_to_write, patched

SCRIPT = """import torch
from torch.utils.data import DataLoader

def main():
    model = Net().to("cuda")
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=3e-4,  # a rate
    )
    loader = DataLoader(data, batch_size=8)


main()
"""


def test_every_kind_of_edit() -> None:
    edits = {
        "tf32": [Edit("top", "torch.backends.x = True")],
        "compile": [Edit("after", "{name}.compile()", 5)],
        "fused": [Edit("add", "fused=True", 6, "AdamW")],
        "workers": [Edit("add", "num_workers=4", 10, "DataLoader")],
    }
    text, left_out = patched(SCRIPT, edits)
    assert left_out == []
    assert "DataLoader\ntorch.backends.x = True\n" in text
    assert '    model = Net().to("cuda")\n    model.compile()\n' in text
    assert "lr=3e-4,  # a rate\n    fused=True)" in text
    assert "DataLoader(data, batch_size=8, num_workers=4)" in text
    compile(text, "script", "exec")
    words = diff(SCRIPT, text, "train.py")
    assert words.startswith("--- a/train.py\n+++ b/train.py\n")
    assert changed_lines(words) == 4


@pytest.mark.parametrize(
    ("source", "edits"),
    [
        (SCRIPT, []),  # no place is known
        (SCRIPT, [Edit("add", "lr=1", 6, "AdamW")]),  # given already
        (SCRIPT, [Edit("add", "fused=True", 6, "SGD")]),  # another call
        (SCRIPT, [Edit("after", "{name}.compile()", 2)]),  # no assignment
        (SCRIPT, [Edit("add", "fused=True", 99, "AdamW")]),
        ("import torch\na, b = Net(), 1\n", [Edit("after", "{name}.compile()", 2)]),  # two targets
    ],
)
def test_what_does_not_fit_is_left_to_the_user(source: str, edits: list[Edit]) -> None:
    assert patched(source, {"it": edits}) == (source, ["it"])


def test_the_line_to_write_names_the_scripts_own_call() -> None:
    edits = [Edit("add", "fused=True", 12, "Adam"), Edit("add", "fused=True", 13, "SGD")]
    words = "Adam(..., fused=True) in line 12; SGD(..., fused=True) in line 13"
    assert line_to_write(edits) == words
    assert line_to_write([Edit("top", "torch.backends.x = True")]) == ""
