"""No retired word of docs/style.md is left in strings, docstrings, comments or pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "docs" / "style.md"


def _retired() -> re.Pattern[str]:
    """One pattern for the whole word list; a space in a phrase also matches a line break."""
    table = STYLE.read_text(encoding="utf-8").partition("## Word list")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    phrases = [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]
    assert phrases
    ways = "|".join(r"[\s>*]+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return re.compile(rf"(?<![\w/])(?:{ways})(?![\w/])", re.IGNORECASE)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text that a person may read in a file, with the line on which it starts."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
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


def _found(path: Path, retired: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, match.start())}: {match[0]!r}"
        for line, text in _texts(path)
        for match in retired.finditer(text)
    ]


def test_no_retired_word_is_left() -> None:
    retired = _retired()
    hits = [hit for path in _files() for hit in _found(path, retired)]
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
    hits = [
        line + text.count("\n", 0, match.start())
        for line, text in _texts(path)
        for match in _retired().finditer(text)
    ]
    assert hits == [line]


def test_words_that_contain_a_retired_word_are_fine() -> None:
    assert not _retired().search("recommended amendment, unalike")
