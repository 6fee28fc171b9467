"""The page that tells how to add a family."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from foretrace.work import families

ROOT = Path(__file__).parents[3]
HOW_TO = ROOT / "docs" / "how-to-kernel-family.md"


def test_the_file_that_the_how_to_page_tells_to_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One new file and no other: the page's example, on the package's path, decodes its name."""
    code = HOW_TO.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    (tmp_path / "acme.py").write_text(code, "utf-8")
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    name = "acme_attn_bwd_f16_hd64"
    _forget()
    try:
        kernel = families.decode(name)
    finally:
        sys.modules.pop("foretrace.work.families.acme", None)
        vars(families).pop("acme", None)
        monkeypatch.undo()
        _forget()
    assert (kernel.family, kernel.role, kernel.fields["dtype_in"]) == ("acme", "attention", "f16")
    before = families.decode(name)  # without the file, one word of the name is all that speaks
    assert (before.family, before.role) == ("user_triton", "attention")
    assert dict(before.fields) == {"op": "user triton"}


def _forget() -> None:
    families.every.cache_clear()
    families.decode.cache_clear()
