"""The manual page is made from the families' own docstrings and examples, and is up to date."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from foretrace import families, plugins

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs" / "kernel-names.md"
page = runpy.run_path(str(ROOT / "tools" / "families_page.py"))["page"]
MODULES = [
    module
    for module in plugins.modules(families)
    if hasattr(module, "FAMILY") or hasattr(module, "FAMILIES")
]


def test_the_page_is_up_to_date() -> None:
    assert MANUAL.read_text("utf-8") == page(), "run: python tools/families_page.py"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_family_documents_itself(module: object) -> None:
    assert module.__doc__
    assert page().count((module.__doc__ or "").strip()) == 1


def test_the_file_that_the_page_tells_to_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One new file and no other: the page's own example, dropped into the package's path, decodes
    its name.
    """
    code = MANUAL.read_text("utf-8").partition('    """Frob')[2].partition("\n\n- `tests")[0]
    lines = f'    """Frob{code}'.split("\n")
    (tmp_path / "frob.py").write_text(
        "\n".join(line.removeprefix("    ") for line in lines), "utf-8"
    )
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    _forget()
    try:
        kernel = families.decode("frob_f16_64x64")
    finally:
        sys.modules.pop("foretrace.families.frob", None)
        vars(families).pop("frob", None)
        monkeypatch.undo()
        _forget()
    assert (kernel.family, kernel.role, kernel.fields["dtype_in"]) == ("frob", "gemm", "f16")
    assert families.decode("frob_f16_64x64").family == "unknown"


def _forget() -> None:
    families.every.cache_clear()
    families.decode.cache_clear()
