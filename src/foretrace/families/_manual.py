"""The manual of the families, from their own docstrings and examples:
`python -m foretrace.families._manual`.

It prints the generated part of `docs/kernel-names.md`; a test fails when that page is out of date.
"""

from __future__ import annotations

from types import ModuleType

from foretrace import families, plugins
from foretrace.schema.kernel import Family


def page() -> str:
    """One section per file: what it says about itself, and its worked examples."""
    sections = [_section(module) for module in plugins.modules(families)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _section(module: ModuleType) -> str:
    declared = [
        *([module.FAMILY] if hasattr(module, "FAMILY") else []),
        *getattr(module, "FAMILIES", ()),
    ]
    if not declared:
        return ""
    names = ", ".join(f"`{family.name}`" for family in declared)
    parts = [
        f"### {names}",
        f"`families/{module.__name__.rpartition('.')[2]}.py`",
        (module.__doc__ or "").strip(),
    ]
    return "\n\n".join([*parts, "For example:", *(_example(family) for family in declared)])


def _example(family: Family) -> str:
    name = next(iter(family.examples))
    kernel = families.decode(name)
    shown = name if len(name) <= 110 else name[:109] + "…"
    lines = [f"    {shown}", f"    {kernel.short} · role {kernel.role}"]
    lines += [f"      {field}: {value}" for field, value in kernel.fields.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
