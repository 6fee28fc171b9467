"""The names of torch.compile's rows."""

from __future__ import annotations

import pytest

from foretrace.schema import compiled


@pytest.mark.parametrize(
    ("name", "label", "version"),
    [
        ("Torch-Compiled Region: 0/1", "Torch-Compiled Region", (0, 1)),
        ("Torch-Compiled Region: 12/3_1", "Torch-Compiled Region_1", (12, 3)),
        ("## Call CompiledFxGraph fab12 ##", "## Call CompiledFxGraph … ##", None),
        ("TorchDynamo Cache Lookup", "TorchDynamo Cache Lookup", None),
    ],
)
def test_rows(name: str, label: str, version: tuple[int, int] | None) -> None:
    assert compiled.is_row(name)
    assert compiled.label(name) == label
    assert compiled.version(name) == version


@pytest.mark.parametrize("name", ["aten::mm", "## forward ##", "my Torch-Compiled Region"])
def test_other_rows(name: str) -> None:
    assert not compiled.is_row(name)
    assert compiled.label(name) == name
    assert compiled.version(name) is None
