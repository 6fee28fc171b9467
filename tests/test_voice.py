"""No retired word of docs/style.md is left in strings, docstrings, comments or pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "docs" / "style.md"


@cache
def _phrases() -> list[str]:
    """The whole word list, in lower case."""
    table = STYLE.read_text(encoding="utf-8").partition("## Word list")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    phrases = [phrase.lower() for row in rows for phrase in re.findall(r"`([^`]+)`", row)]
    assert phrases
    return phrases


def _words(source: str) -> str:
    """The words alone, as they follow each other where strings are joined and lines broken."""
    apart = re.sub(r"""\\[nrt]|\b[bfr]{1,2}(?=["'])""", " ", source.lower())
    return " ".join(["", *re.findall(r"\w+", apart), ""])


def _retired(source: str) -> re.Pattern[str] | None:
    """One pattern for the phrases whose words a file has; a space also matches a line break.

    The whole list in one pattern takes ten times longer, and most files have none of them.
    """
    words = _words(source)
    possible = [phrase.split() for phrase in _phrases() if _words(phrase) in words]
    ways = "|".join(r"[\s>*]+".join(map(re.escape, each)) for each in possible)
    return re.compile(rf"(?<![\w/])(?:{ways})(?![\w/])", re.IGNORECASE) if ways else None


def _texts(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Every text that a person may read in a file, with the line on which it starts."""
    if suffix != ".py":
        yield 1, source
        return
    tree = ast.parse(source)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in joined for part in node.values}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.lineno, node.value
    for node in joined:
        yield (
            node.lineno,
            "".join(
                str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values
            ),
        )
    yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments; those on lines that follow each other are one text."""
    start, last, lines = 0, 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if lines and token.start[0] != last + 1:
            yield start, "\n".join(lines)
            lines = []
        start, last = (start if lines else token.start[0]), token.start[0]
        lines.append(token.string.lstrip("# "))
    if lines:
        yield start, "\n".join(lines)


def _files() -> list[Path]:
    found = [
        path
        for folder in ("src", "tools", "examples", "benchmarks")
        for suffix in ("py", "toml", "js", "html", "css")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    ]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / ".github").rglob("*.md")]
    found += (ROOT / "web" / "src").rglob("*.ts")
    return sorted(path for path in [*found, *pages] if path != STYLE)


def _found(path: Path) -> Iterator[tuple[int, str]]:
    """Line and phrase of every retired phrase in a file."""
    source = path.read_text(encoding="utf-8")
    retired = _retired(source)
    for line, text in _texts(source, path.suffix) if retired else ():
        for match in retired.finditer(text):
            yield line + text.count("\n", 0, match.start()), match[0]


def test_no_retired_word_is_left() -> None:
    hits = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}"
        for path in _files()
        for line, phrase in _found(path)
    ]
    assert hits == [], "\n" + "\n".join(hits)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('x = 1\ny = f"{x} ops: who "\\\n    "asked"\n', 2),
        ('def f():\n    """Fine.\n\n    Who\n    asked.\n    """\n', 4),
        ("x = 1  # fine\n# a trace that was\n# mended\n", 3),
    ],
)
def test_retired_words_are_found(source: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    hits = [at for at, _ in _found(path)]
    assert hits == [line]
