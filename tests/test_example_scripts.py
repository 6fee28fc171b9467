"""The scripts of examples/ run as the articles and the pages show them."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foretrace
from foretrace.cli import main
from foretrace.record.hf_job import inline_metadata

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


def imported_names(path: Path) -> set[str]:
    """The top names of everything that a script and the modules beside it import."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    beside = (path.with_name(f"{name}.py") for name in names)
    return names.union(*(imported_names(each) for each in beside if each.is_file()))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_the_inline_metadata_names_every_import(script: Path) -> None:
    imported = imported_names(script)
    local = {path.stem for path in script.parent.glob("*.py")}
    if "gated_mlp(" in script.read_text():  # Liger is the reason for this script
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
    # no index has foretrace: `uv run` takes the clone that the script lies in
    source = metadata["tool"]["uv"]["sources"][project["name"]]
    assert (script.parent / source["path"]).resolve() == ROOT


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


# the files that a page shows whole
SHOWN = {
    "how-to-github": ("bench.py", "performance.yml"),
    "how-to-trainer": ("trainer.py", "trainer_callback.py"),
    "how-to-lightning": (
        "lightning_fit.py", "lightning_callback.py", "accelerate_loop.py", "accelerate_tracker.py",
        "accelerate_profile.py",
    ),
    "how-to-loader": ("slow_loader.py",),
    "how-to-memory": ("keeps_outputs.py",),
}  # fmt: skip
# what a script is recorded with, and the packages that it needs beside torch
RECORD = {
    "slow_loader": ((), ()),
    "trainer": ((), ("transformers", "accelerate")),
    "accelerate_loop": ((), ("accelerate",)),
    "lightning_fit": ((), ("lightning",)),
    "keeps_outputs": (("--memory",), ()),
}
INSIDE = {
    "accelerate_profile": ("accelerate",),
    "trainer_callback": ("transformers", "accelerate"),
    "lightning_callback": ("lightning",),
    "accelerate_tracker": ("accelerate",),
}


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_shows_its_scripts_as_they_are(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for name in SHOWN[page]:
        kind = "yaml" if name.endswith("yml") else "python"
        assert f"```{kind}\n{(ROOT / 'examples' / name).read_text()}```" in text


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to run in; what the scripts of examples/ import of each other is found."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    yield tmp_path
    for name in RECORD:
        sys.modules.pop(name, None)


def _steps(trace: Path) -> int:
    return len(foretrace.open(trace, cache=False).steps)


@pytest.mark.torch
@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", RECORD)
def test_a_script_of_a_page_is_recorded_as_it_is(name: str, beside: Path) -> None:
    options, packages = RECORD[name]
    for package in packages:
        pytest.importorskip(package)
    small = (ROOT / f"examples/{name}.py").read_text().replace("8192", "64")  # seconds on a CPU
    Path(f"{name}.py").write_text(small)
    assert main(["record", "--stop", "--no-look", *options, f"{name}.py"]) == 0
    assert _steps(beside / f"traces/{name}.json.gz") == 3


@pytest.mark.torch
@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", INSIDE)
def test_a_script_of_a_page_keeps_a_trace_from_inside(name: str, beside: Path) -> None:
    for package in INSIDE[name]:
        pytest.importorskip(package)
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert _steps(beside / "traces/inside.json.gz") == 3


@pytest.mark.torch
@pytest.mark.sweep
def test_lightnings_own_profiler_takes_the_handler(beside: Path) -> None:
    lightning = pytest.importorskip("lightning")
    page = (ROOT / "docs/how-to-lightning.md").read_text()
    (code,) = re.findall(r"```python\n(from lightning.pytorch.profilers.*?)```", page, re.DOTALL)
    around: dict[str, Any] = {"foretrace": foretrace, "lightning": lightning}
    exec(compile(code, "the page", "exec"), around)
    fit = runpy.run_path(str(ROOT / "examples/lightning_fit.py"))["fit"]
    fit(profiler=around["profiler"], limit_train_batches=8)
    assert _steps(beside / "traces/run.json.gz") == 3
