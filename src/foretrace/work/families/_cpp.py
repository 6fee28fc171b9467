"""C++ names as profilers print them: scope, function, template arguments, data types. One pass,
never raises, cut names included.

Kineto writes `(anonymous namespace)`, `4`, `true`, `4ul`; nsys and ncu write `<unnamed>`, `(int)4`,
`(bool)1`, `(unsigned long)4`. Both read the same here. A name whose brackets do not close was cut
by a tool: `truncated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from foretrace.work.families._tables import by_spelling, is_cut, rx

_BRACKETS = r"[<>(){}]"
_PAIRS = {")": "(", "}": "{"}
# Names that stayed mangled: Kineto leaves those beyond 8192 characters so, and those that the
# demangler does not know, such as the type `DF16b`. Only identifiers and simple types are read.
_LITERAL = r"L[a-z]n?\d{1,18}E"
_SUBSTITUTE = r"S[0-9A-Z]{0,6}_|S[tabsiod]"
_NAMED = by_spelling("named_types")

# How C++ spells each data type, and the one word used here for it.
TYPES = by_spelling("cpp_types")
# Itanium-mangled built-in types.
MANGLED = by_spelling("mangled_types")


class Cpp(Struct, frozen=True):
    """`void a::f<4, float>(int)`: scope `a`, base `f`, args `4` and `float`, params `(int)`."""

    scope: str
    base: str
    args: tuple[str, ...]
    params: str
    truncated: bool

    def arg(self, index: int) -> str:
        """The template argument at this place, or ""."""
        return nth(self.args, index)


def nth(args: Sequence[str], index: int) -> str:
    """The argument at this place, or "" where there are fewer."""
    return args[index] if index < len(args) else ""


@lru_cache(maxsize=256)
def parse(name: str) -> Cpp:
    """Read one name. A plain identifier is a base without scope and arguments."""
    cut = is_cut(name)
    text = without_anonymous(name).rstrip(".…") if cut else without_anonymous(name)
    start, opened, closed, params = 0, -1, -1, len(text)
    position, truncated = 0, False
    while found := rx(r"[<({ ]").search(text, position):
        at, mark = found.start(), found.group()
        if mark == " ":
            start, opened = at + 1, -1
            position = at + 1
            continue
        if mark == "(" and not text[max(at - 8, 0) : at].endswith("operator"):
            params = at
            truncated = truncated or _close(text, at) == len(text)
            break
        end = _close(text, at)
        truncated = truncated or end == len(text)
        if mark == "<":
            opened, closed = at, end
        position = end + 1
    head = text[start : opened if opened >= 0 else params].rstrip()
    scope, _, base = head.rpartition("::")
    base = base if opened >= 0 or params < len(text) or not cut else ""  # it was cut
    args = _whole(split(text[opened + 1 : closed]), closed == len(text)) if opened >= 0 else ()
    return Cpp(scope, base, args, text[params:], truncated or cut)


def without_anonymous(text: str) -> str:
    """The text with anonymous namespaces taken out: they say nothing and their brackets mislead."""
    for word in ("(anonymous namespace)", "<unnamed>", "(anonymous)"):
        if word in text:
            text = text.replace(word + "::", "")
    return text


def split(text: str) -> tuple[str, ...]:
    """The comma-separated arguments of a template's inside, brackets respected."""
    pieces, begin, position = [], 0, 0
    while found := rx(r"[<({,]").search(text, position):
        at = found.start()
        if found.group() == ",":
            pieces.append(text[begin:at].strip())
            begin = position = at + 1
        else:
            position = _close(text, at) + 1
    last = text[begin:].strip()
    return (*pieces, last) if last else tuple(pieces)


def inside(text: str, template: str) -> tuple[str, ...]:
    """The arguments of the first `template<…>` in the text, or none."""
    at = text.find(template + "<")
    if at < 0:
        return ()
    opened = at + len(template)
    closed = _close(text, opened)
    return _whole(split(text[opened + 1 : closed]), closed == len(text))


def _whole(args: tuple[str, ...], cut: bool) -> tuple[str, ...]:
    """The arguments, less the last where the name was cut inside it: `1` may have been `128`."""
    last = args[-1] if args else ""
    half = cut and (integer(last) is not None or not rx(_BRACKETS).search(last))
    return args[:-1] if half else args


def leaf(text: str) -> str:
    """`at::native::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}…` -> `silu_kernel`."""
    text = without_anonymous(text)
    found = rx(r"[<({\[ ]").search(text)
    return (text[: found.start()] if found else text).rpartition("::")[2]


def integer(text: str) -> int | None:
    """`4`, `4ul`, `(int)4` -> 4."""
    found = rx(r"(?:\([a-z ]+\))?(-?\d{1,18})[uUlL]*").fullmatch(text)
    return int(found.group(1)) if found else None


def boolean(text: str) -> bool | None:
    """`true`, `(bool)1` -> True."""
    return {"true": True, "(bool)1": True, "false": False, "(bool)0": False}.get(text)


@lru_cache(maxsize=4096)
def dtype(text: str) -> str | None:
    """The type behind a C++ spelling, pointers and `const` ignored; None for anything else."""
    plain = rx(r"\bconst\b|[*&]").sub("", text).strip() if len(text) < 80 else ""
    return TYPES.get(plain)


def _close(text: str, opened: int) -> int:
    """Where the bracket at `opened` closes: at the end of a cut name. `(8)>(0)` closes nothing."""
    stack: list[str] = []
    for found in rx(_BRACKETS).finditer(text, opened):
        mark = found.group()
        if mark in "<({":
            stack.append(mark)
        elif mark == ">":
            if stack[-1] == "<" and text[found.start() - 1] != "-":
                stack.pop()
        else:
            while stack and stack.pop() != _PAIRS[mark]:
                pass
        if not stack:
            return found.start()
    return len(text)


def is_mangled(name: str) -> bool:
    return name.startswith("_Z")


@lru_cache(maxsize=64)
def identifiers(name: str) -> tuple[str, ...]:
    """The identifiers in order, without substitutions, anonymous namespaces and literals."""
    name = name.rstrip(".…")
    found: list[str] = []
    position, in_enum = 2, False
    while position < len(name):
        if in_enum and (value := rx(r"En?\d{1,10}E").match(name, position)):
            position, in_enum = value.end(), False
        elif skipped := rx(f"{_LITERAL}|{_SUBSTITUTE}").match(name, position):
            position = skipped.end()
        elif opened := rx(r"L(?=[NSZ\d])").match(name, position):
            position, in_enum = opened.end() or position + 1, True
        elif length := rx(r"(\d{1,4})(?=[A-Za-z_])").match(name, position):
            end = length.end() + int(length[1])
            if end <= len(name):  # the rest was cut
                found.append(name[length.end() : end])
            position = end
        else:
            following = rx(r"[0-9ELS]").search(name, position + 1)  # nothing else begins a piece
            position = following.start() if following else len(name)
    return tuple(word for word in found if not word.startswith("_GLOBAL__N_"))


def type_after(name: str, identifier: str) -> str | None:
    """The first template argument of `identifier`, if it is a data type."""
    rest = _arguments(name, identifier)
    found = rx(r"DF16b|DF16_|Dh|[fdilxsahbjmy]").match(rest)
    if found:
        return MANGLED[found[0]]
    word = next(iter(identifiers("_Z" + rest.removeprefix("N3c10")[:40])), "")
    return _NAMED.get(word)


def numbers_after(name: str, identifier: str) -> list[int]:
    """The integers that are the first template arguments: `MetadataILi4EE` -> [4]."""
    found = rx(r"(?:Li\d{1,9}E)+").match(_arguments(name, identifier))
    return [int(number) for number in rx(r"\d+").findall(found[0])] if found else []


def _arguments(name: str, identifier: str) -> str:
    mark = f"{len(identifier)}{identifier}I"
    at = name.find(mark)
    return name[at + len(mark) :] if at >= 0 else ""
