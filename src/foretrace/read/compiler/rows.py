"""The rows that torch.compile writes into a trace (torch 2.11 to 2.13) and what they say."""

from __future__ import annotations

from functools import cache

from foretrace.base.patterns import regex

CACHE_LOOKUP = "TorchDynamo Cache Lookup"
REGION = "Torch-Compiled Region"
GRAPH = "## Call CompiledFxGraph"
FUNCTION = "CompiledFunction"
# how the names of all rows around compiled code begin
ROWS = ("TorchDynamo", REGION, "Pregraph bytecode", "AOTDispatcher", GRAPH, FUNCTION)
_VERSION = regex(rf"{REGION}: (\d{{1,9}})/(\d{{1,9}})(?:_\d+)?")
_FRAME = regex(rf"{REGION}: \d+/\d+")
_HASH = regex(rf"{GRAPH} \S+ ##")


def is_row(name: str) -> bool:
    """Whether torch.compile wrote this row around the code that it compiled."""
    return name.startswith(ROWS)


def version(name: str) -> tuple[int, int] | None:
    """(frame, version): `Torch-Compiled Region: 0/1` is the second version of frame 0."""
    found = _VERSION.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def is_compilation(name: str) -> bool:
    """Whether a host range is time that Dynamo or Inductor spent compiling."""
    return name.endswith("(dynamo_timed)") or (
        "torch/_dynamo/convert_frame.py" in name and name.endswith(": _compile")
    )


@cache
def label(name: str) -> str:
    """A name without what differs from run to run: a graph's hash, a frame's number."""
    return _FRAME.sub(REGION, _HASH.sub(f"{GRAPH} … ##", name))
