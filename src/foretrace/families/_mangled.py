"""Names that stayed mangled (`_ZN2ck16tensor_operation…`): Kineto leaves them so beyond 8192
characters, and where the demangler gives up, as it does on new types such as `DF16b`. Only
identifiers and simple types are pulled out.
"""

from __future__ import annotations

from functools import lru_cache

from foretrace.families import _dtypes
from foretrace.families._reading import rx

_LITERAL = r"L[a-z]n?\d{1,18}E"
_ENUM = r"L(?=[NSZ\d])"
_ENUM_VALUE = r"En?\d{1,10}E"
_SUBSTITUTE = r"S[0-9A-Z]*_|S[tabsiod]"
_IDENTIFIER = r"(\d{1,4})(?=[A-Za-z_])"
_BUILTIN = r"DF16b|DF16_|Dh|[fdilxsahbjmy]"
_NAMED = {
    "BFloat16": "bf16",
    "Half": "f16",
    "__nv_bfloat16": "bf16",
    "__half": "f16",
    "__hip_bfloat16": "bf16",
}


def is_mangled(name: str) -> bool:
    return name.startswith("_Z")


@lru_cache(maxsize=64)
def identifiers(name: str) -> tuple[str, ...]:
    """The identifiers in order, without substitutions and anonymous namespaces; numbers of literals
    are not lengths.
    """
    name = name.rstrip(".…")
    found: list[str] = []
    position, in_enum = 2, False
    while position < len(name):
        if in_enum and (value := rx(_ENUM_VALUE).match(name, position)):
            position, in_enum = value.end(), False
        elif skipped := rx(f"{_LITERAL}|{_SUBSTITUTE}").match(name, position):
            position = skipped.end()
        elif opened := rx(_ENUM).match(name, position):
            position, in_enum = opened.end() or position + 1, True
        elif length := rx(_IDENTIFIER).match(name, position):
            end = length.end() + int(length[1])
            if end <= len(name):  # half an identifier is none
                found.append(name[length.end() : end])
            position = end
        else:
            position += 1
    return tuple(word for word in found if not word.startswith("_GLOBAL__N_"))


def type_after(name: str, identifier: str) -> str | None:
    """The first template argument of `identifier`, if it is a data type."""
    rest = _arguments(name, identifier)
    found = rx(_BUILTIN).match(rest)
    if found:
        return _dtypes.MANGLED[found[0]]
    word = next(iter(identifiers("_Z" + rest.removeprefix("N3c10")[:40])), "")
    return _NAMED.get(word)


def numbers_after(name: str, identifier: str) -> list[int]:
    """The integers that follow `identifier` directly as template arguments: `MetadataILi4EE` ->
    [4].
    """
    found = rx(r"(?:Li\d{1,9}E)+").match(_arguments(name, identifier))
    return [int(number) for number in rx(r"\d+").findall(found[0])] if found else []


def _arguments(name: str, identifier: str) -> str:
    mark = f"{len(identifier)}{identifier}I"
    at = name.find(mark)
    return name[at + len(mark) :] if at >= 0 else ""
