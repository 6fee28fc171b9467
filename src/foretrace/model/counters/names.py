"""Kernel names as torch's profiler and as Nsight Compute write them: two demanglers, one kernel.

    trace  void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
           std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)
    ncu    void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
           std::array<char *, 3>>(int, T2, T3)

They agree on the function and on the words of its template arguments.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAMELESS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(unnamed namespace\)::")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_NUMBER, _TRUE, _FALSE = (re.compile(text) for text in (r"\b\d+", r"\btrue\b", r"\bfalse\b"))
# Words of one demangler alone.
_OWN = frozenset(
    (
        "instance",
        "unnamed",
        "anonymous",
        "namespace",
        "lambda",
        "const",
        "int",
        "bool",
        "unsigned",
        "long",
    )
)
_PARAMETER = re.compile(r"T\d+")


@lru_cache(maxsize=8192)
def function(name: str) -> str:
    """`void at::native::foo<4, float>(int)` -> `foo`."""
    plain = _NAMELESS.sub("", name)
    head = re.split(r"[<(]", plain, maxsplit=1)[0].strip()
    return re.split(r"::|\s", head)[-1] or plain


@lru_cache(maxsize=8192)
def argument_words(name: str) -> frozenset[str]:
    """The words of a name's template arguments, and its numbers as one more; none without any.

    `4, true, 128u` and `(int)4, (bool)1, (unsigned int)128` have the same numbers.
    """
    inside = _template(_NAMELESS.sub("", name))
    words = {
        word
        for word in _WORD.findall(inside)
        if word not in _OWN and not _PARAMETER.fullmatch(word)
    }
    numbers = ",".join(_NUMBER.findall(_TRUE.sub("1", _FALSE.sub("0", inside))))
    return frozenset(words | {numbers} if numbers else words)


def _template(name: str) -> str:
    """What stands between the angle brackets of the function."""
    start = name.find("<")
    if start < 0 or "(" in name[:start]:
        return ""
    depth = 0
    for at in range(start, len(name)):
        depth += (name[at] == "<") - (name[at] == ">" and name[at - 1] != "-")
        if depth == 0:
            return name[start + 1 : at]
    return name[start + 1 :]


def likeness(left: str, right: str) -> float:
    """The share of words that the arguments of two names have in common, 0 to 1."""
    ours, theirs = argument_words(left), argument_words(right)
    both = ours | theirs
    return len(ours & theirs) / len(both) if both else 1.0
