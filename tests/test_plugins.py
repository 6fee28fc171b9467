"""An installed package adds a kernel family by an entry point alone; a broken one costs a line."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from foretrace.base import errors, plugins
from foretrace.cli import main
from foretrace.learn.ladder import rungs
from foretrace.look import rules as analyses
from foretrace.read import recordings
from foretrace.trace import groups
from foretrace.work import costs, devices, families

MLP = str(recordings.traces()["mlp_eager"])
NUMBERS = itertools.count()  # a module is imported once

FAMILY = """
from foretrace.work.kernel import Family, KernelId

def decode(name):
    return KernelId(name, "frob", "frobnicator", "gemm") if name.startswith("frob_") else None

FAMILY = Family("frobnicator", decode, order=1)
"""
FILES = {
    "frobnicator.py": FAMILY,
    "frobnicator-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: frobnicator\nVersion: 1.0\n",
    "frobnicator-1.0.dist-info/entry_points.txt": (
        "[foretrace.families]\nfrobnicator = frobnicator:FAMILY\n"
    ),
}


def family_of(name: str, place: Path | None) -> str:
    """The family that a fresh process with `place` on its path finds for a kernel name."""
    path = [str(place)] if place else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}
    code = f"from foretrace.work import families; print(families.decode({name!r}).family)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_a_package_brings_a_family(tmp_path: Path, packed: bool) -> None:
    place = tmp_path / "site"
    if packed:
        with zipfile.ZipFile(place, "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
    else:
        for name, text in FILES.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    assert family_of("frob_256x128", place) == "frobnicator"
    assert family_of("frob_256x128", None) != "frobnicator"


GROUPS: dict[str, Callable[[], Sequence[object]]] = {
    "families": families.every,
    "devices": devices.every,
    "costs": costs.kinds,
    "analyses": analyses.rules,
    "groups": groups.every,
    "rungs": rungs,
}
CACHES = (
    families.every, families.decode, devices.every, costs.kinds, costs._price, costs._prices,
    costs._shares, analyses.rules, groups.every,
)  # fmt: skip


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Declare entry points of a module with that source, in this process."""

    def installed(source: str, *groups: str, name: str = "THING") -> None:
        module = f"plugin_{next(NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(source)
        declared = tuple(
            EntryPoint("frob", f"{module}:{name}", f"foretrace.{group}") for group in groups
        )
        monkeypatch.setattr(plugins, "_entry_points", lambda: declared)
        for each in CACHES:
            each.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(errors, "_said", set())
    yield installed
    monkeypatch.undo()
    for each in CACHES:
        each.cache_clear()


BROKEN = {
    "ImportError": "import no_such_module",
    "SyntaxError": "def",
    "SystemExit": "raise SystemExit(3)",
    "RuntimeError": "raise RuntimeError('two\\nlines \\x1b[31m')",
    "AttributeError": "OTHER = 3",
    "TypeError": "THING = 3",
    "BaseException": "raise BaseException",
    "UnicodeDecodeError": "b'\\xff'.decode()",
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_broken_entry_point_is_named_and_skipped(
    problem: str, install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken entry point broke every command and was called our bug."""
    sound = {group: len(found()) for group, found in GROUPS.items()}
    install(BROKEN[problem], *GROUPS)
    for group, found in GROUPS.items():
        capsys.readouterr()
        assert len(found()) == sound[group]
        said = capsys.readouterr().err
        assert said.startswith("foretrace: warning: the plugin frob (plugin_")
        assert f"foretrace.{group}) is skipped: " in said
        assert said.count("\n") == 1
        assert "\x1b" not in said


def test_every_command_answers_with_broken_plugins(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """105 of 343 runs ended with a broken plugin; the answers are those without it."""
    commands = [
        ["look", MLP, "--json"],
        ["check", MLP, "total.kernels == 5", "in mlp_fwd: count(gemm) == 3"],
        ["compare", MLP, MLP],
        ["export", MLP, "--to", "csv"],
        ["explain", "gemm_kernel"],
        ["export", MLP, "--to", "shared", "-o", str(tmp_path / "shared")],
    ]
    install("", name="NONE")
    sound = [(main([*each]), capsys.readouterr().out) for each in commands]
    install("raise SystemExit(9)", *GROUPS)
    for each, (code, out) in zip(commands, sound, strict=True):
        assert main([*each]) == code
        shown = capsys.readouterr()
        assert shown.out.replace(" (was there)", "") == out
        assert "bug" not in shown.err


AT_WORK = {
    "families": "from foretrace.work.kernel import Family\nTHING = Family('frob', fail, 0)",
    "groups": "from foretrace.trace.groups import WorkGroup\nTHING = WorkGroup('frob', 0, fail)",
    "costs": "from foretrace.work.costs import CostKind\nTHING = CostKind({'aten::*': fail, 'aten::mm': fail, 'aten::mul': fail}, {'aten::*': fail})",
    "analyses": "from foretrace.look.rules import Rule\nTHING = Rule('frob', 'frobs', fail)",
}


@pytest.mark.parametrize("group", AT_WORK)
@pytest.mark.parametrize("problem", ["ValueError('no')", "SystemExit(3)", ""])
def test_a_plugin_that_fails_at_work_is_named(
    problem: str, group: str, install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is skipped, the rest of the answer stands."""
    works = f"raise {problem}" if problem else "return 3j"
    install(f"def fail(*given):\n    {works}\n{AT_WORK[group]}", group)
    assert main(["look", MLP, "--no-cache", "--json"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    if group == "analyses":  # a rule that crashes is part of the answer
        states = {each["rule"]: each["state"] for each in document["findings"]}
        assert states["frob"] == "crashed"
        return
    assert f"foretrace.{group}) failed: {problem.partition('(')[0] or 'TypeError'}: " in shown.err
    assert shown.err.count("\n") == 1


QUANTITY = """
from foretrace.check.judging import Value
from foretrace.check.language import Reads
from foretrace.check.quantities import Quantity

def frobs(window):
    "Frobs of a step."
    return Value(3, 3)

def fail(window):
    raise ValueError("no")

FROBS = Quantity("frobs", "count", Reads(), frobs)
FAILS = Quantity("fails", "count", Reads(), fail)
"""


def test_a_package_brings_a_quantity(tmp_path: Path) -> None:
    """One that fails costs a line, and hides no other."""
    (tmp_path / "frobs.py").write_text(QUANTITY)
    about = tmp_path / "frobs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: frobs\nVersion: 1.0\n")
    names = "frobs = frobs:FROBS\nfails = frobs:FAILS\n"
    (about / "entry_points.txt").write_text(f"[foretrace.quantities]\n{names}")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    texts = ["frobs == 3", "fails == 3", "total.kernels == 15"]
    command = [sys.executable, "-m", "foretrace", "check", MLP, *texts, "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    marks = [each["verdict"] for each in json.loads(done.stdout)["guesses"]]
    assert marks == ["hit", "unknown", "hit"]
    assert "fails (frobs:FAILS, in foretrace.quantities) failed: ValueError: no" in done.stderr


@pytest.mark.parametrize(
    "thing",
    [
        "Family(3, str)",
        "Family('frob', 3)",
        "Family('frob', str, None)",
    ],
)
def test_a_declaration_that_cannot_be_used_is_skipped(
    thing: str, install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install(f"from foretrace.work.kernel import Family\nTHING = {thing}", "families")
    assert len(families.every()) > 20
    assert "is skipped: TypeError: " in capsys.readouterr().err


@pytest.mark.parametrize("group", GROUPS)
def test_our_own_declarations_fit(group: str) -> None:
    for each in GROUPS[group]():
        plugins._check_fields(each)


@pytest.mark.parametrize(
    ("group", "source"),
    [
        (
            "devices",
            "from foretrace.work.devices import Device\n"
            "THING = Device('x', 'sm_1', (3, 4), {'bf16': None}, 1.0, None, 3, 'source')",
        ),
        (
            "rungs",
            "from foretrace.record.rung import Rung\nTHING = Rung('x', 'title', (3,), {}, print)",
        ),
        (
            "groups",
            "from foretrace.trace.groups import WorkGroup\n"
            "THING = WorkGroup('frob', 0, str, ('gemm',))",
        ),
        (
            "groups",
            "from foretrace.trace.groups import Pattern, WorkGroup\n"
            "THING = WorkGroup('frob', 0, str, (Pattern('gemm ('),))",
        ),
    ],
)
def test_what_a_declaration_holds_is_checked(
    group: str, source: str, install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    sound = len(GROUPS[group]())
    install(source, group)
    assert len(GROUPS[group]()) == sound
    assert "is skipped: TypeError: " in capsys.readouterr().err


@pytest.mark.sweep
def test_processes_repeat_no_line(tmp_path: Path) -> None:
    """A folder of large traces is read by several processes; a broken plugin still costs a line."""
    for name in "ab":
        (tmp_path / f"{name}.json.gz").write_bytes(Path(MLP).read_bytes())
    site = tmp_path / "site"
    for name, text in (FILES | {"frobnicator.py": "import no_such_module"}).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    code = (
        "import sys; from foretrace.look import reading; reading.WORTHWHILE = 0;"
        "from foretrace.cli import main;"
        f"sys.exit(main(['look', {str(tmp_path)!r}, '--no-cache']))"
    )
    script = tmp_path / "script.py"
    script.write_text(f"if __name__ == '__main__':\n    exec({code!r})")
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.count("the plugin frob") == 1, done.stderr
