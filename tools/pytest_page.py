"""Writes docs/pytest.md from the plugin: `python tools/pytest_page.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

from foretrace.analyze.guess import snapshots
from foretrace.record import pytest_plugin
from foretrace.record.pytest_plugin import RecordedBlock

PAGE = Path(__file__).parents[1] / "docs" / "pytest.md"
_REST = """\
## Snapshots

`t.check_snapshot()` compares the kernels of one step with a text file beside the test, keyed by GPU
architecture and torch minor version: `__kernels__/test_mlp/test_mlp.sm90-torch2.11.txt`. Commit
these files.

| snapshots of this test | what happens |
|---|---|
| one for this key | compared; a difference fails and lists removed, added and changed kernels |
| none | written, and listed in the summary; in CI (`CI` is set) the test fails |
| only for other machines | the test is skipped with a message that names them |
| `--foretrace-update` | written again |

{snapshot}

## When a test fails

The report has a section `foretrace` with every prediction of the test, the kernels that changed,
and the path where the recorded trace is kept; open it with `foretrace look`. The summary at the end
counts predictions and lists the unknown ones.

## On a machine without a GPU

Ops are recorded, and Inductor's C++ kernels (the fixture turns `cpp.enable_kernel_profile` on while
a test runs), so counts of ops, `cpu kernels`, fusion and snapshots work. Predictions about GPU
kernels, memcpys, launches and syncs are unknown, and listed as such. Without torch the fixture
still opens files; a test that records is skipped.
"""


def page() -> str:
    """The whole page."""
    options = [
        f"| `--foretrace-{name}` | `foretrace_{name}` | `{default}` | {text} |"
        for name, (default, text) in pytest_plugin.OPTIONS.items()
    ]
    marks = [
        "| `{}` | {} |".format(*mark.removesuffix(" (foretrace)").split(": ", 1))
        for mark in pytest_plugin.MARKS
    ]
    parts = [
        "# In a test suite\n",
        "<!-- Written by `python tools/pytest_page.py`; change the code, not this page. -->\n",
        inspect.getdoc(pytest_plugin) or "",
        "\nWhat can be predicted is in [guess.md](guess.md).\n",
        "## Blocks\n",
        inspect.getdoc(RecordedBlock) or "",
        "\n## Marks\n",
        "| mark | means |\n|---|---|",
        *marks,
        "\n## Settings\n",
        "| option | ini | default | |\n|---|---|---|---|",
        *options,
        "",
        _REST.format(snapshot=(inspect.getdoc(snapshots) or "").split("\n\n", 1)[1]),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
