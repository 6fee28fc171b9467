"""What a generated C++ kernel loads and stores, from its text alone.

Loops such as `for(int64_t x0=…(0L); x0<…(50L); x0+=…(4L))` are variables. A vector load in a loop
with steps of 4 reads the elements that the loop steps over, and its tail the last of them: the
variable counts them once. A pointer in any other place is touched, but nobody knows where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from msgspec import Struct

from foretrace.model.compiled.accesses import Touch, unseen
from foretrace.model.compiled.indices import Index, Root, index_of, linear, operation
from foretrace.model.compiled.syntax import expression

_TYPES = {
    "float": "f32", "double": "f64", "bfloat16": "bf16", "half": "f16", "at::BFloat16": "bf16",
    "at::Half": "f16", "int64_t": "i64", "int32_t": "i32", "int16_t": "i16", "int8_t": "i8",
    "uint8_t": "u8", "bool": "b8", "long": "i64", "int": "i32", "c10::BFloat16": "bf16",
    "c10::Half": "f16", "unsigned char": "u8", "signed char": "i8", "short": "i16",
    "uint32_t": "u32", "uint64_t": "u64", "uint16_t": "u16",
}  # fmt: skip
_PARAMETER = re.compile(r"(?:const )?([\w:]{1,60}(?: char)?) ?(\*?) ?(?:__restrict__ )?(\w{1,200})")
_ALIAS = re.compile(r"auto (\w{1,200}) = (\w{1,200});")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\b(\d{1,19})L{0,2}\b")
_CAST = re.compile(r"(?:static_cast|c10::convert)<(?:int64_t|long|int32_t|int)>")
_LONGEST = 5000  # characters of an index
_VECTOR = ("loadu(", ".store(", "transpose_mxn<")


class CppCode(Struct, frozen=True):
    """The parameters of a kernel, the short types of its pointers, and its lines."""

    parameters: tuple[str, ...]
    pointers: dict[str, str]
    lines: tuple[str, ...]


class _Loop(Struct, frozen=True):
    name: str
    value: Index | None
    depth: int
    step: int = 1


def read(code: str) -> CppCode | None:
    """The kernel in a text: the last function that C can call. None if there is none."""
    _, found, rest = code.rpartition('extern "C"')
    head, _, body = rest.partition("{")
    inside = head[head.find("(") + 1 : head.rfind(")")] if "(" in head else ""
    given = [_PARAMETER.fullmatch(" ".join(part.split())) for part in inside.split(",")]
    known = [each for each in given if each]
    if not found or len(known) < len(given):
        return None
    pointers = {each[3]: _TYPES.get(each[1], "") for each in known if each[2]}
    return CppCode(tuple(each[3] for each in known), pointers, tuple(body.splitlines()))


def touches(code: CppCode, scalars: Mapping[str, int]) -> list[Touch]:
    """Every load and store, in order; `scalars` are whole-number arguments."""
    reader = _CppReader(code, scalars)
    for line in code.lines:
        reader.take(line)
    seen = {touch.argument for touch in reader.found}
    return [*reader.found, *(each for p in code.pointers if p not in seen for each in unseen(p))]


class _CppReader:
    def __init__(self, code: CppCode, scalars: Mapping[str, int]) -> None:
        self.pointers = {name: name for name in code.pointers}
        self.scalars = scalars
        self.loops: list[_Loop] = []
        self.depth = 0
        self.conditional: int | None = None  # the depth of a function that a mask calls
        self.found: list[Touch] = []

    def take(self, line: str) -> None:
        """One line: a loop, another name for a pointer, or a statement."""
        text = line.strip()
        alias = _ALIAS.fullmatch(text)
        if alias and alias[2] in self.pointers:
            self.pointers[alias[1]] = self.pointers[alias[2]]
        elif text.startswith(("for(", "for (")):
            self.loops.append(self._loop(text))
        elif any(word in self.pointers for word in _WORD.findall(text)):
            self._statement(text)
        if "[&]" in text and self.conditional is None:
            self.conditional = self.depth
        self.depth += text.count("{") - text.count("}")
        if "}" in text:
            self.loops = [loop for loop in self.loops if loop.depth < self.depth]
            if self.conditional is not None and self.depth <= self.conditional:
                self.conditional = None

    def _loop(self, text: str) -> _Loop:
        """A variable from its first value on; the inner loop of a vector repeats its lanes."""
        first, _, rest = text[text.find("(") + 1 :].partition(";")
        test, _, step = rest.partition(";")
        name, _, start = first.partition("=")
        name = name.split()[-1] if name.split() else ""
        if name.endswith("_inner"):
            return _Loop(name, 0, self.depth)
        low, high = self._index(start), self._index(test.partition("<")[2])
        by = 1 if "++" in step else self._index(step.partition("=")[2].strip().removesuffix(")"))
        size = operation("-", high, low)
        root = Root(f"{name}.{self.depth}", size) if isinstance(size, int) and size > 0 else None
        value = operation("+", low, root)
        return _Loop(name, value, self.depth, by if isinstance(by, int) else 0)

    def _known(self) -> dict[str, Index | None]:
        return {**self.scalars, **{loop.name: loop.value for loop in self.loops}}

    def _index(self, text: str) -> Index | None:
        node = expression(_python(text)) if len(text) <= _LONGEST else None
        return None if node is None else index_of(node, self._known())

    def _statement(self, text: str) -> None:
        for name, mode, inside, vector in _places(text, self.pointers):
            index = None if inside is None else self._index(inside)
            index = index if not vector or self._is_run(index) else None
            # one element for each turn of the loops: not so for a vector, nor for a call
            most = None if vector or inside is None else self._most()
            masked = self.conditional is not None or ".template" in text
            mask = None if masked else 1
            shown = "" if inside is None else _python(inside)
            self.found.append(Touch(self.pointers[name], mode, shown, index, mask, most))

    def _most(self) -> int | None:
        """The loops around it allow no more."""
        roots = [linear(loop.value) if loop.value is not None else None for loop in self.loops]
        sizes = [form.high - form.low + 1 for form in roots if form is not None]
        return prod(sizes) if len(sizes) == len(roots) else None

    def _is_run(self, index: Index | None) -> bool:
        """Whether a vector load reads what its loop steps over: the variable has the factor 1."""
        form = None if index is None else linear(index)
        stepping = [loop for loop in self.loops if loop.step != 1]
        if form is None or not stepping:
            return False
        names = {f"{loop.name}.{loop.depth}" for loop in stepping}
        return any(d[0].name in names and c == 1 and d[1] == 1 for d, c in form.terms.items())


def _places(text: str, pointers: Mapping[str, str]) -> Iterator[tuple[str, str, str | None, bool]]:
    """(pointer, mode, index or None, whether a vector) for every pointer in a statement."""
    for found in _WORD.finditer(text):
        if found[0] not in pointers:
            continue
        before, after = text[: found.start()], text[found.end() :].lstrip()
        store = before.rstrip().endswith(".store(")
        atomic = "atomic_add" in before
        if after.startswith("["):
            inside = _balanced(after, "[", "]")
            rest = after[len(inside) + 2 :].lstrip()
            written = rest.startswith("=") and not rest.startswith("==")
            mode = "atomic" if atomic else "store" if written or store else "load"
            yield found[0], mode, inside, False
        elif after.startswith("+ ") and any(each in before for each in _VECTOR) and not atomic:
            yield found[0], "store" if store else "load", _argument(after[2:]), True
        else:
            yield found[0], "atomic" if atomic else "store" if store else "load", None, False


def _balanced(text: str, opening: str, closing: str) -> str:
    """What stands between the first bracket and the one that closes it."""
    depth = 0
    for at, letter in enumerate(text[:_LONGEST]):
        depth += (letter == opening) - (letter == closing)
        if depth == 0:
            return text[1:at]
    return ""


def _argument(text: str) -> str:
    """An argument up to the comma or bracket that ends it."""
    depth = 0
    for at, letter in enumerate(text[:_LONGEST]):
        if depth == 0 and letter in ",)":
            return text[:at]
        depth += (letter in "([") - (letter in ")]")
    return ""


def _python(text: str) -> str:
    """A C++ expression of whole numbers as Python would write it; `/` divides whole numbers."""
    plain = _NUMBER.sub(r"\1", _CAST.sub("", text)).replace("::", ".").replace("/", "//")
    return plain.replace("&&", "&").strip()
