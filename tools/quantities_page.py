"""Write the table of quantities in `docs/check.md` as the code tells it."""

from __future__ import annotations

import re
from pathlib import Path

from foretrace.check.quantities import QUANTITIES, Quantity

PAGE = Path(__file__).parents[1] / "docs" / "check.md"
_ROWS = re.compile(r"(^\| quantity \| unit \| meaning \|\n\|---\|---\|---\|\n)(?:^\|.*\n)*", re.M)


def refreshed(page: str) -> str:
    """The page with the rows as they are now."""
    alike: dict[str, list[Quantity]] = {}
    for each in QUANTITIES.values():  # `idle.sync` and `idle.copy` differ in a word: one row
        cause = each.name.rpartition(".")[2]
        alike.setdefault(each.manual.replace(f"`{cause}`", "that"), []).append(each)
    rows = "".join(_row(manual, several) for manual, several in alike.items())
    return _ROWS.sub(lambda head: head[1] + rows, page)


def _row(manual: str, several: list[Quantity]) -> str:
    calls = ", ".join(f"`{call}`" for each in several for call in _calls(each))
    unit = {"word": "", "truth": "yes or no", "ratio": "x"}
    return f"| {calls} | {unit.get(several[0].unit, several[0].unit)} | {manual} |\n"


def _calls(quantity: Quantity) -> list[str]:
    least, most = quantity.reads.least, quantity.reads.most
    of = ", ".join("…" for _ in range(max(least, 1))) + ", …" * (most > least > 1)
    return [quantity.name] * (not least) + [f"{quantity.name}({of})"] * (most > 0)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text("utf-8")), "utf-8")
