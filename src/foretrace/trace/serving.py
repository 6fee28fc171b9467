"""What a serving engine says about a batch in its annotations: requests, tokens, context lengths.

vLLM writes `execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)`: the
tokens of the batch, then for prefill (context) and decode (generation) the number of requests and
sums over them: new tokens (sq), context lengths (sk), and their matmuls. Without these it writes
`execute_context_1(512)_generation_32(32)`: requests and new tokens of both kinds, in some versions
with the sum of their squares (`512_262144`). SGLang writes
`step[DECODE bs=32]` and `step[EXTEND bs=15 toks=15360]`, with `detailed_annotations` also the sums:
`step[DECODE bs=32 g_sq=32 g_sqsq=32 g_sqsk=32785 g_sk=32785]`, and `c_` for prefill.

A kernel worked on the requests that the annotation of its step states (`contexts`). Only
annotations that state context lengths count; of nested ones the innermost around the launch does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import coded
from foretrace.base.patterns import regex
from foretrace.trace.intervals import Ints
from foretrace.trace.recording import Recording
from foretrace.trace.spans import Span, Spans
from foretrace.work.costs import Context
from foretrace.work.kernel import NAME_LIMIT

_SUMS = r"(\d{1,9})\(sq(\d{1,15})sk(\d{1,15})sqsq(\d{1,18})sqsk(\d{1,18})\)"
_EXECUTE = regex(rf"execute_(?:\d{{1,9}}_)?context_{_SUMS}_generation_{_SUMS}")
_COUNTED = regex(
    r"execute_(?:\d{1,9}_)?context_(\d{1,9})\((\d{1,15})(?:_\d{1,18})?\)"
    r"_generation_(\d{1,9})\((\d{1,15})(?:_\d{1,18})?\)"
)
_STEP = regex(
    r"\b(decode|prefill|extend|mixed)\b.{0,3}\bbs=(\d{1,9})(?: toks=(\d{1,12}))?", re.IGNORECASE
)
_SUM = regex(r" ([cg])(?:_(sq|sk|sqsq|sqsk))?=(\d{1,18})\b")


class Requests(Struct, frozen=True):
    """Requests of one kind in a batch; sums over them. None where the annotation does not say.

    `tokens` are new ones, computed in this batch. `context` is how many tokens each attends to,
    the new ones included. `pairs` is new tokens times context, request by request, and `squares`
    new tokens times themselves.
    """

    count: int
    tokens: int
    context: int | None = None
    pairs: int | None = None
    squares: int | None = None


NONE = Requests(0, 0, 0, 0, 0)


class ServedBatch(Struct, frozen=True):
    """One run of the model by a serving engine."""

    prefill: Requests
    decode: Requests

    @property
    def kind(self) -> str:
        """`prefill`, `decode` or `mixed`."""
        if self.prefill.count and self.decode.count:
            return "mixed"
        return "prefill" if self.prefill.count else "decode"

    @property
    def tokens(self) -> int:
        """New tokens of both kinds."""
        return self.prefill.tokens + self.decode.tokens

    @property
    def context(self) -> int | None:
        """Context lengths of all requests together."""
        return self.total("context")

    def total(self, name: str) -> int | None:
        """The sum of a field over both kinds; None where one of them does not state it."""
        parts = (getattr(self.prefill, name), getattr(self.decode, name))
        return None if None in parts else sum(parts)


def served_batch(name: str) -> ServedBatch | None:
    """What an annotation says; None where it is not one of a serving engine."""
    if found := _EXECUTE.search(name):
        numbers = [int(number) for number in found.groups()]
        # requests, new tokens, context, and the squares before the pairs
        both = (numbers[:5], numbers[5:])
        prefill, decode = (Requests(n, sq, sk, sqsk, sqsq) for n, sq, sk, sqsq, sqsk in both)
        return ServedBatch(prefill, decode) if prefill.count or decode.count else None
    if found := _COUNTED.search(name):
        first, new, second, more = map(int, found.groups())
        prefill, decode = (
            Requests(*each) if each[0] else NONE for each in ((first, new), (second, more))
        )
        return ServedBatch(prefill, decode) if first or second else None
    if found := _STEP.search(name):
        return _sglang(found[1].lower(), int(found[2]), int(found[3] or 0), name)
    return None


def _sglang(kind: str, count: int, tokens: int, name: str) -> ServedBatch | None:
    prefill, decode = (
        {key: int(n) for of, key, n in _SUM.findall(name) if of == each} for each in "cg"
    )
    if kind == "mixed":
        return ServedBatch(_summed(prefill), _summed(decode)) if prefill.get("") else None
    decodes = kind == "decode"
    # without a number of tokens only a decode says how many: one for each request
    tokens = tokens or (decode if decodes else prefill).get("sq", count if decodes else 0)
    if not count or not tokens:
        return None
    if decodes:
        return ServedBatch(NONE, _summed({"": count, "sq": tokens} | decode))
    return ServedBatch(_summed({"": count, "sq": tokens} | prefill), NONE)


def _summed(sums: Mapping[str, int]) -> Requests:
    if not sums.get(""):
        return NONE
    return Requests(sums[""], sums.get("sq", 0), *map(sums.get, ("sk", "sqsk", "sqsq")))


class Served(Struct, frozen=True):
    """The batches of a trace in order; for every row of `gpu` the batch it belongs to, or -1."""

    spans: tuple[Span, ...]
    batches: tuple[ServedBatch, ...]
    batch_of_work: Ints

    def at(self, row: int) -> ServedBatch | None:
        """The batch for which a row of `gpu` was launched."""
        index = int(self.batch_of_work[row])
        return self.batches[index] if index >= 0 else None


def served(spans: Spans) -> Served:
    """Every annotated batch; of nested annotations the one that says most, then the outer one.

    SGLang's step lies inside an `execute_…` range where both were recorded.
    """
    found = [(span, batch) for span in spans.regions if (batch := served_batch(span.name))]
    known = _outermost([pair for pair in found if pair[1].context is not None])
    starts = [span.start_ns for span, _ in known]
    for span, batch in _outermost([pair for pair in found if pair[1].context is None]):
        at = bisect_right(starts, span.start_ns) - 1
        if at < 0 or known[at][0].end_ns < span.end_ns:
            known.append((span, batch))
    known.sort(key=lambda pair: pair[0].start_ns)
    of_work = np.full(len(spans.gpu), -1, np.int64)
    for index, (span, _) in enumerate(known):
        of_work[span.work] = index
    return Served(tuple(span for span, _ in known), tuple(batch for _, batch in known), of_work)


def _outermost(pairs: list[tuple[Span, ServedBatch]]) -> list[tuple[Span, ServedBatch]]:
    kept: list[tuple[Span, ServedBatch]] = []
    for pair in sorted(pairs, key=lambda pair: (pair[0].start_ns, -pair[0].end_ns)):
        if not kept or pair[0].end_ns > kept[-1][0].end_ns:
            kept.append(pair)
    return kept


def context_of(name: str) -> Context | None:
    """The requests that an annotation states, prefilled and decoding ones together."""
    batch = served_batch(name)
    if batch is None:
        return None
    sums = [batch.total(each) for each in ("count", "tokens", "context", "pairs", "squares")]
    known = [each for each in sums if each is not None]
    return Context(*known) if len(known) == len(sums) else None


def contexts(trace: Recording, rows: Ints) -> tuple[Ints, list[Context]]:
    """For rows of `gpu` the number of their context, or -1, and the distinct contexts."""
    host = trace.host
    found = np.full(len(rows), -1, np.int64)
    regions = np.flatnonzero(host.is_region)
    names, place = coded(host.name[regions])
    stated = [context_of(host.names[name][:NAME_LIMIT]) for name in names.tolist()]
    known = [context for context in stated if context is not None]
    if not known:
        return found, []
    number = np.cumsum([context is not None for context in stated]) - 1
    number[[context is None for context in stated]] = -1
    of_event = np.full(host.count, -1, np.int64)
    of_event[regions] = number[place]
    event = host.nearest(trace.gpu.launch[rows], of_event >= 0)
    found[event >= 0] = of_event[event[event >= 0]]
    return found, known
