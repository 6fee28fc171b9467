"""The fixes as a change of the script's source: lines found by the syntax tree, a unified diff.

Needs no torch. A statement that the tree does not show as expected is left alone, and the fix is
listed as one to write by hand.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence

from foretrace.record.tries.rounds import Edit

Insertion = tuple[int, int, str]  # line and column, from 0, and the text to put there


def patched(source: str, edits: Mapping[str, Iterable[Edit]]) -> tuple[str, list[str]]:
    """The source with the edits of each fix, and the fixes that could not be written."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    found: set[Insertion] = set()
    left_out: list[str] = []
    for name, wanted in edits.items():
        places = [PLACES[edit.kind](tree, lines, edit) for edit in wanted]
        if not places or None in places:
            left_out.append(name)
        found |= {each for each in places if each is not None}
    for line, column, text in sorted(found, reverse=True):
        if line >= len(lines):
            lines.append(text)
            continue
        raw = lines[line].encode()
        lines[line] = (raw[:column] + text.encode() + raw[column:]).decode()
    return "".join(lines), left_out


def line_to_write(edits: Sequence[Edit]) -> str:
    """What the script's own calls get, and where; empty where that is not known."""
    calls = {
        "add": "{0.name}(..., {0.words}) in line {0.line}",
        "by hand": "{0.words} in line {0.line}",
    }
    if any(each.kind not in calls for each in edits):
        return ""
    return "; ".join(calls[each.kind].format(each) for each in edits)


def diff(before: str, after: str, name: str) -> str:
    """The change as `patch -p1` and `git apply` read it."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


def changed_lines(text: str) -> int:
    """How many lines a diff adds."""
    return sum(line.startswith("+") and not line.startswith("+++") for line in text.splitlines())


def _keywords(tree: ast.Module, lines: list[str], edit: Edit) -> Insertion | None:
    """Before the closing bracket of the call at that line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not _spans(node, edit.line):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", "")) != edit.name:
            continue
        given = {each.arg for each in node.keywords}
        if None in given or any(f"{name}=" in edit.words for name in given):
            return None
        line, column = (node.end_lineno or 1) - 1, (node.end_col_offset or 1) - 1
        last = [*node.args, *(each.value for each in node.keywords)]
        text = edit.words if not last else _after_comma(last[-1], line, column, lines) + edit.words
        return line, column, text
    return None


def _after_comma(last: ast.expr, line: int, column: int, lines: list[str]) -> str:
    """A comma and a blank, unless the call ends with a comma."""
    end = (last.end_lineno or 1) - 1
    parts = [each.encode() for each in lines[end : line + 1]]
    parts[-1] = parts[-1][:column]
    between = parts[0][last.end_col_offset or 0 :] + b"".join(parts[1:])
    code = b"".join(each.split(b"#")[0] for each in between.splitlines())
    return "" if b"," in code else ", "


def _spans(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _below_imports(tree: ast.Module, lines: list[str], edit: Edit) -> Insertion | None:
    """Below the last import at the top level; torch must be among them."""
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    names = {part.asname or part.name for each in imports for part in each.names}
    if "torch" not in names and not any(each.startswith("torch.") for each in names):
        return None
    return (imports[-1].end_lineno or 1, 0, edit.words + "\n")


def _below(tree: ast.Module, lines: list[str], edit: Edit) -> Insertion | None:
    """Below the assignment to one name at that line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not _spans(node, edit.line):
            continue
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name | ast.Attribute):
            return None
        name = ast.unparse(node.targets[0])
        text = " " * node.col_offset + edit.words.format(name=name) + "\n"
        return node.end_lineno or 1, 0, text
    return None


PLACES: dict[str, Callable[[ast.Module, list[str], Edit], Insertion | None]] = {
    "add": _keywords,
    "top": _below_imports,
    "after": _below,
    "by hand": lambda *_: None,
}
