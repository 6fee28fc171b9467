"""A person's own code: how it is found, what it may return, and whose an error is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from foretrace.base.errors import UsageError  # noqa: E402
from foretrace.record.tries import child  # noqa: E402

CODE = """
import their_other_file

def pair(n=1, m=1):
    return (lambda x, y=0: (x, y, n, m)), (7,)

def keywords():
    return (lambda x, y: (x, y)), {"y": 2, "x": 1}

def one():
    return str, 5

def alone():
    return lambda: "called"

def work(n=3):
    return n + 1

number = 3
"""


def same(thing: object) -> object:
    return thing


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "their_code.py").write_text(CODE)
    (tmp_path / "their_other_file.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("their_code", "their_other_file"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("place", ["their_code", "their_code.py", "{folder}/their_code.py"])
def test_it_is_found_by_module_and_by_file(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.startswith("{"):
        monkeypatch.chdir("/")
    assert child.find(f"{place.format(folder=folder)}:work")() == 4


@pytest.mark.parametrize(
    ("name", "shape", "result"),
    [
        ("pair", (), (7, 0, 1, 1)),
        ("pair", (8, 9), (7, 0, 8, 9)),
        ("keywords", (), (1, 2)),
        ("one", (), "5"),
        ("alone", (), "called"),
        ("work", (), 4),
        ("work", (10,), 11),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_it_may_return(name: str, shape: tuple[int, ...], result: object) -> None:
    assert child.call_of(child.find(f"their_code:{name}"), same, *shape)() == result


@pytest.mark.usefixtures("folder")
def test_what_is_compiled_is_the_work_and_not_its_set_up() -> None:
    compiled: list[Callable[..., object]] = []

    def compiler(thing: Callable[..., object]) -> Callable[..., object]:
        compiled.append(thing)
        return thing

    child.call_of(child.find("their_code:one"), compiler)
    child.call_of(child.find("their_code:work"), compiler)
    assert compiled == [str, child.find("their_code:work")]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("their_code:wrok", "their_code has no 'wrok': did you mean work"),
        ("their_code:number", "is a int and cannot be called"),
        ("nobody:work", "no module 'nobody' in this folder"),
        ("nobody.py:work", "no such file: nobody.py"),
        (":work", "names no callable"),
        ("their_code:", "names no callable"),
        ("./their_code:work", "./their_code is neither a module nor a .py file"),
        (".their_code:work", "neither a module"),
        ("their/code:work", "neither a module"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_not_there_is_wrong_usage(target: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        child.find(target)
