"""What was not recorded, in words: a reader must know what an answer cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.read.compiler.records import CompilerLogs
from foretrace.schema.compiler import Compilation

_CHANNELS = (
    ("fusion", "fusion reasons (TORCH_LOGS=+fusion)"),
    ("ir_pre_fusion", "the scheduler's nodes (TORCH_LOGS=ir_pre_fusion,ir_post_fusion)"),
)


def lacking(logs: CompilerLogs, compilations: Sequence[Compilation]) -> tuple[str, ...]:
    """One phrase for each kind of record that is missing, and how to record it."""
    return tuple(_lacks(logs, compilations))


def _lacks(logs: CompilerLogs, compilations: Sequence[Compilation]) -> Iterator[str]:
    if not logs.records:
        yield "graphs and compile times (TORCH_TRACE=DIR)"
    if not any(each.code for each in compilations):
        yield "generated code: no record of Inductor"
        return
    channels = {text.channel for text in logs.texts}
    yield from (words for channel, words in _CHANNELS if channel not in channels)
    if not any(each.decompositions for each in compilations):
        yield "provenance (INDUCTOR_PROVENANCE=1)"
