"""The article's scripts run alone: each names every package it needs, and has the article's flags."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from foretrace.record.remote.plan import imported_names, inline_metadata, needed_files

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("0*.py"))
# the article's flags and their defaults; the attention scripts are one script here
MLP = {"batch": 64, "seq": 128, "dim": 768, "hidden": 3072, "compile": False}
FLAGS: dict[str, dict[str, Any]] = {
    "01_matmul_add": {"size": 64, "dtype": None, "warmup": False, "compile": False},
    "02_linear": {"batch": 1024, "in_dim": 32, "out_dim": 64, "compile": False},
    "03_simple_mlp": MLP,
    "03_kernels_mlp": MLP,
    "04_attention": {"batch": 8, "heads": 16, "seq": 1024, "head_dim": 64, "backend": "naive"},
}
# what a module imports where another package brings it, or where a failure is foreseen
OPTIONAL = {"kernels": "kernels", "liger_kernel": "liger-kernel"}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_the_inline_metadata_names_every_import(script: Path) -> None:
    files = needed_files(script)
    imported = set().union(*map(imported_names, files.values()))
    local = {Path(name).stem for name in files}
    if "gated_mlps" in script.read_text():  # Liger is the reason for this script
        imported |= set(OPTIONAL)
    metadata = inline_metadata(script)
    named = {re.split(r"[\s<>=!;\[]", each)[0] for each in metadata["dependencies"]}
    assert named == {
        OPTIONAL.get(each, each) for each in imported - local - set(sys.stdlib_module_names)
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["requires-python"] == project["requires-python"]
    known = {each for extra in project["optional-dependencies"].values() for each in extra}
    pins = {each.partition(";")[0] for each in metadata["dependencies"]} - {"foretrace"}
    assert pins <= {each.partition(";")[0] for each in known}


@pytest.mark.torch
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_the_flags_are_the_articles(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(script.parent)
    found: dict[str, Any] = {}

    def parsed(self: argparse.ArgumentParser) -> None:
        found.update({each.dest: each.default for each in self._actions})
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    with pytest.raises(SystemExit):
        runpy.run_path(str(script), run_name="__main__")
    assert FLAGS[script.stem].items() <= found.items()
    assert found["trace_dir"] == f"./traces/{script.stem}"
