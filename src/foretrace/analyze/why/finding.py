"""The kernel that a person means: a name, its beginning, a part of it, or some of its words."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from foretrace.base.errors import UsageError
from foretrace.schema.documents.why import CompiledKernel, Why

NEAREST = 4  # names that an error lists


def kernels_named(why: Why, wanted: str) -> list[CompiledKernel]:
    """Every entry of the one kernel that fits; an error names the nearest."""
    names: dict[str, list[CompiledKernel]] = {}
    for row in why.kernels:
        calls = (call.handle for call in row.calls)
        for name in {row.name, _op(row.name), *row.gpu_names, *calls}:
            names.setdefault(name, []).append(row)
    for fits in (str.__eq__, str.startswith, str.__contains__, _has_words):
        found = _fitting(names, wanted, fits)
        if found:
            return found
    kernels = list(dict.fromkeys(row.name for row in why.kernels))
    near = get_close_matches(wanted, kernels, n=NEAREST, cutoff=0.3) or kernels[:NEAREST]
    known = f"the nearest: {', '.join(near)}" if near else "the log has no kernel"
    raise UsageError(f"no kernel {wanted!r}; {known}")


def _op(name: str) -> str:
    """`mm` of `extern_kernels.mm`, `sort` of `torch.ops.aten.sort.stable`."""
    parts = name.split(".")
    return parts[parts.index("aten") + 1] if "aten" in parts[:-1] else parts[-1]


def _fitting(
    names: dict[str, list[CompiledKernel]], wanted: str, fits: Callable[[str, str], bool]
) -> list[CompiledKernel]:
    """The entries of the names that fit, if they are of one kernel."""
    rows = {id(row): row for name, each in names.items() if fits(name, wanted) for row in each}
    kernels = {row.name for row in rows.values()}
    if len(kernels) > 1:
        listed = ", ".join(sorted(kernels)[:NEAREST])
        more = f" and {len(kernels) - NEAREST} more" if len(kernels) > NEAREST else ""
        raise UsageError(
            f"{wanted!r} fits {len(kernels)} kernels: {listed}{more}; write more of one"
        )
    return list(rows.values())


def _has_words(name: str, wanted: str) -> bool:
    """Whether the words of `wanted` occur in a name in this order, the first and last as such."""
    words, asked = name.split("_"), wanted.split("_")
    if not wanted or words[0] != asked[0] or words[-1] != asked[-1]:
        return False
    left = iter(words)
    return all(word in left for word in asked)
