"""Where compiled kernels come from, for the panel of a page: lines, tensors, generated code."""

from __future__ import annotations

import re

from msgspec import Struct

from foretrace.base.units import bytes_text
from foretrace.model.trace import Trace
from foretrace.schema.compiler import Access, Compilation, CompiledLaunch, GeneratedKernel
from foretrace.show.render.safe import plain

# A generated kernel has some hundred lines. A page holds one of each, and a log may be hostile.
MOST_CODE = 200_000
_INCLUDE = re.compile(r'(#include ")[^"\n]*/(?=[^"/\n]*")')
LANGUAGES = {"triton": "Triton", "cpp": "C++"}


class KernelOrigin(Struct, frozen=True):
    """What one call of compiled code is: `lines` of the user's code, `moves` (mode, tensor, bytes),
    `nodes` of the graph, and the generated code with its language; empty for a library's kernel.
    """

    lines: list[tuple[str, str]]
    nodes: list[str]
    moves: list[tuple[str, str, str]]
    language: str = ""
    code: str = ""


class Origins(Struct, frozen=True):
    """Every distinct origin, and the number of that of each event."""

    every: list[KernelOrigin]
    of: dict[int, int]


def origins(trace: Trace) -> Origins:
    """The origins of the compiled kernels of a trace; none without the compiler's records."""
    every: list[KernelOrigin] = []
    numbers: dict[tuple[int, int], int] = {}
    found: dict[int, int] = {}
    for event, launch in trace.compiled.items():
        key = id(launch.compilation), id(launch.call)
        if key not in numbers:
            numbers[key] = len(every)
            every.append(_origin(launch))
        found[event] = numbers[key]
    return Origins(every, found)


def _origin(launch: CompiledLaunch) -> KernelOrigin:
    call = launch.call
    kernel = generated(launch.compilation, launch)
    return KernelOrigin(
        [(plain(line.place), plain(line.code)) for line in launch.lines],
        [plain(node) for node in call.nodes],
        [_move(access) for access in call.accesses],
        LANGUAGES.get(kernel.language, kernel.language) if kernel else "",
        _code(kernel.code) if kernel else "",
    )


def generated(compilation: Compilation, launch: CompiledLaunch) -> GeneratedKernel | None:
    """The generated kernel of a call; a library's has none."""
    call = launch.call
    named = [each for each in compilation.kernels if each.name == call.kernel]
    same = [each for each in named if each.graph == call.graph]
    return next(iter(same or named), None) if not call.extern else None


def _move(access: Access) -> tuple[str, str, str]:
    tensor = access.tensor
    sizes = ", ".join(map(str, tensor.shape))
    about = "at most " if access.certainty == "at_most" else ""
    moved = f"{about}{bytes_text(access.bytes)}" if access.bytes is not None else "not known"
    return access.mode, plain(f"{tensor.name} {tensor.dtype}[{sizes}]"), moved


def _code(text: str) -> str:
    """Line by line, so that no mark of a log reaches the page; a report travels without folders."""
    shown = _INCLUDE.sub(r"\1", text[:MOST_CODE].expandtabs(4).strip("\n"))
    lines = (plain(line) for line in shown.splitlines())
    cut = f"\n… {len(text) - MOST_CODE:,} more characters" if len(text) > MOST_CODE else ""
    return "\n".join(lines) + cut
