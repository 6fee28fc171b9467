"""Libraries whose kernel names are literal C++ names: the function's words tell what it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretrace.families import _cpp, _dtypes, _words
from foretrace.families._reading import Reading
from foretrace.schema.kernel import Family, KernelId


def library(namespace: str, lib: str, examples: Mapping[str, Mapping[str, Any]]) -> Family:
    """A family for everything below one C++ namespace, which gives the family its name."""

    def decode(name: str) -> KernelId | None:
        cpp = _cpp.parse(name) if f"{namespace}::" in name[:200] else None
        return (
            read(name, cpp, namespace, lib)
            if cpp and cpp.scope.split("::")[0] == namespace
            else None
        )

    return Family(name=namespace, decode=decode, order=34, examples=examples)


def read(name: str, cpp: _cpp.Cpp, family: str, lib: str) -> KernelId:
    """Role and short name from the words of the function, or of its namespaces; the type from the
    first template argument.
    """
    r = Reading(name, family)
    plain = _words.plain(cpp.base)
    r.note(cpp.base, f"the name is literal: {plain}", "inferred")
    r.put(cpp.scope.split("::")[0] or cpp.base, "lib", lib, lib, "inferred")
    types = ((text, _dtypes.cpp(text)) for text in cpp.args)
    text, dtype = next(
        (entry for entry in types if entry[1] not in (None, "bool", "i32", "u32")), ("", "")
    )
    if dtype:
        r.put(text, "dtype", dtype, f"works on {dtype}", "inferred")
    role = _words.role(cpp.base)
    role = role if role != "other" else _words.role(f"{cpp.scope}_{cpp.base}")
    return r.done(role, f"{plain} {dtype}".strip())
