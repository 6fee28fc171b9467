"""Write the part of `docs/kernel-names.md` below `## Families`: `python tools/families_page.py`.

Each section is a family's docstring and its first worked example; a test fails when the page is
out of date.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from foretrace.base import plugins
from foretrace.names import families
from foretrace.schema.kernel import Family

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "kernel-names.md"
EXAMPLES = ROOT / "tests" / "names" / "families" / "examples"
MARK = "\n## Families\n\n"


def page() -> str:
    """The whole page: what is written by hand, then one section per file of `families/`."""
    sections = (_section(module) for module in plugins.modules(families))
    head = PAGE.read_text("utf-8").partition(MARK)[0]
    return head + MARK + "\n\n".join(section for section in sections if section) + "\n"


def _section(module: ModuleType) -> str:
    declared = [*getattr(module, "FAMILIES", ()), *filter(None, [getattr(module, "FAMILY", None)])]
    if not declared:
        return ""
    names = ", ".join(f"`{family.name}`" for family in declared)
    file = f"`families/{module.__name__.rpartition('.')[2]}.py`"
    examples = [_example(family) for family in declared]
    return "\n\n".join(
        [f"### {names}", file, (module.__doc__ or "").strip(), "For example:", *examples]
    )


def _example(family: Family) -> str:
    first = (EXAMPLES / f"{family.name}.jsonl").read_text("utf-8").partition("\n")[0]
    name = json.loads(first)["name"]
    kernel = families.decode(name)
    shown = name if len(name) <= 110 else name[:109] + "…"
    lines = [f"    {shown}", f"    {kernel.short} · role {kernel.role}"]
    lines += [f"      {field}: {value}" for field, value in kernel.fields.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
