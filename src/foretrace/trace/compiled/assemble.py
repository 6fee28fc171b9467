"""From the records of a log to a `CompilerRun`: one `Compilation` per compile id.

A compilation may have several attempts (Dynamo starts again after a graph break) and several
wrappers (forward and backward). The last attempt counts. A wrapper belongs to the post-grad graph
before it in the log, and to the provenance after it. After `torch._dynamo.reset()` Dynamo counts
from `0/0` again: a compile id that starts a second time is another compilation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foretrace.read.compiler.bundle import CompilerLogs, LogRecord, TextRecord
from foretrace.read.compiler.records import (
    Compilation,
    CompilerRun,
    FxGraph,
    GeneratedKernel,
    KernelCall,
    SchedulerNode,
    SourceLine,
    Stage,
)
from foretrace.trace.compiled.compile_log import (
    cache_states,
    cudagraph_skips,
    graph_breaks,
    guard_failures,
    limit_reached,
    phases,
    rerecordings,
    tuned,
    with_skips,
)
from foretrace.trace.compiled.provenance import (
    LIBRARY,
    NODES,
    STACKS,
    Matcher,
    Provenance,
    credited,
    named,
    origins,
    provenance,
    typed,
)
from foretrace.trace.compiled.scheduler import parse_choices, parse_graph, parse_nodes
from foretrace.trace.compiled.syntax import json_object
from foretrace.trace.compiled.wrapper import parse_wrapper

Key = tuple[int | None, str, int]  # rank, compile id, resets before it
INFO = "triton_kernel_info"
_CHANNELS = (
    ("fusion", "fusion reasons (TORCH_LOGS=+fusion)"),
    ("ir_pre_fusion", "the scheduler's nodes (TORCH_LOGS=ir_pre_fusion,ir_post_fusion)"),
)
STAGES: dict[str, Stage] = {
    "dynamo_output_graph": "dynamo",
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
}
_POST_GRAD = ("inductor_post_grad_graph", "after_post_grad_graph")  # of torch 2.9 on, and before
_METRICS = ("compilation_metrics", "bwd_compilation_metrics")
_OUTPUT_CODE = "Output code:"
GRAPHS = ("backward", "forward", "inference")
_OF_WRAPPERS = ("before", "after", "choices", "kernels", "calls")


def assemble(logs: CompilerLogs) -> CompilerRun:
    """Every compilation of a log, in the order in which they began."""
    records, texts = by_compilation(logs)
    made = tuple(
        _Pieces(key, records.get(key, []), texts.get(key, [])).compilation()
        for key in dict.fromkeys((*records, *texts))
    )
    # a compile id that only `chromium_event` records name says nothing
    told = ("graphs", "code", "breaks", "recompile", "before", "failure", "function")
    said = [each for each in made if any(getattr(each, name) for name in told)]
    found = with_skips(said, logs.texts)
    missing, again = tuple(missing_records(logs, found)), rerecordings(logs.texts)
    return CompilerRun(logs.path, found, logs.ledger, logs.sources, missing, again)


def parts(compilation: Compilation) -> Iterator[Compilation]:
    """One per wrapper, with what belongs to it alone: names are unique in each."""
    for at in range(max(len(compilation.code), 1)):
        lists = {name: getattr(compilation, name) for name in _OF_WRAPPERS}
        own = {name: tuple(e for e in list_ if e.graph == at) for name, list_ in lists.items()}
        yield replace(
            compilation,
            **own,
            graphs=tuple(each for each in compilation.graphs if each.graph in (None, at)),
            code=compilation.code[at : at + 1],
            decompositions=compilation.mappings[at] if at < len(compilation.mappings) else {},
        )


def graph_name(part: Compilation) -> str:
    """`forward`, `backward` or `inference`, as the first line of the wrapper says."""
    first = part.code[0].partition("\n")[0] if part.code else ""
    named = (name for name in GRAPHS if f"_{name}'" in first)
    return next(named, "") or next((each.stage for each in part.graphs if each.stage in GRAPHS), "")


class _WrittenCode(Struct):
    """The code of one wrapper and the records around it."""

    code: str
    post_grad: FxGraph | None = None
    mappings: bytes = b""
    stacks: bytes = b""
    info: bytes = b""


class _Pieces:
    """The records of one compilation, put together."""

    def __init__(self, key: Key, records: Sequence[LogRecord], texts: Sequence[TextRecord]) -> None:
        self.rank, self.id, _ = key
        self.records, self.texts = records, texts
        self.stack = self._stack()
        self.metrics = [each.fields for each in records if each.kind in _METRICS]
        compiled = _function(self.metrics, self.stack)
        self.caller = _caller(compiled, self.stack)
        self.function = self.caller or compiled
        attempts = [each.attempt for each in records] + [each.attempt for each in texts]
        last = max(attempts, default=0)
        self.final_records = [each for each in records if each.attempt == last]
        self.final_texts = [each for each in texts if each.attempt == last]
        self.wrappers = list(self._wrappers())
        self.graphs = tuple(self._graphs())
        self.before, self.after = self._nodes("ir_pre_fusion"), self._nodes("ir_post_fusion")
        self.origins = origins(self.final_texts)

    def compilation(self) -> Compilation:
        parsed = [self._parsed(at, each) for at, each in enumerate(self.wrappers)]
        breaks = graph_breaks(self.records, self.texts)
        times = [ns for each in self.metrics if (ns := _duration(each)) is not None]
        return Compilation(
            self.id,
            self.function,
            self.rank,
            self.stack,
            self.graphs,
            self.before,
            self.after,
            parse_choices(self.final_texts),
            tuple(kernel for kernels, _, _ in parsed for kernel in kernels),
            tuple(call for _, calls, _ in parsed for call in calls),
            tuple(each.code for each in self.wrappers),
            {op: nodes for _, _, found in reversed(parsed) for op, nodes in found.ops.items()},
            breaks,
            guard_failures(self.records, self.texts),
            phases(self.records),
            sum(times) if times else None,  # backward included
            cache_states(self.records),
            cudagraph_skips(self.records, self.texts),
            _failure(self.metrics) or limit_reached(self.texts),
            mappings=tuple(found.ops for _, _, found in parsed),
            tuned=tuned(self.records),
        )

    def _wrappers(self) -> Iterator[_WrittenCode]:
        """In the order of the log."""
        made: list[_WrittenCode] = []
        graph: FxGraph | None = None
        for record in self.final_records:
            if record.kind in _POST_GRAD or record.name in _POST_GRAD:
                graph = self._graph(record, "post_grad")
            elif record.kind == "inductor_output_code":
                made.append(_WrittenCode(_text(record.payload), graph))
                graph = None
            elif made and record.name == NODES and not made[-1].mappings:
                made[-1].mappings = record.payload
            elif made and record.name == STACKS and not made[-1].stacks:
                made[-1].stacks = record.payload
            elif made and record.name == INFO and not made[-1].info:
                made[-1].info = record.payload
        texts = [each.text for each in self.final_texts if each.channel == "output_code"]
        # generated code of the log text, for a log without records
        yield from made or (
            _WrittenCode(text.removeprefix(_OUTPUT_CODE).lstrip())
            for text in texts
            if text.startswith(_OUTPUT_CODE)
        )

    def _graphs(self) -> Iterator[FxGraph]:
        for record in self.final_records:
            if stage := STAGES.get(record.kind):
                yield self._graph(record, stage)
        for at, wrapper in enumerate(self.wrappers):
            if wrapper.post_grad:
                yield replace(wrapper.post_grad, graph=at)

    def _graph(self, record: LogRecord, stage: Stage) -> FxGraph:
        """A graph. One of torch's own modules alone has no line: the line that calls it counts."""
        graph = parse_graph(_text(record.payload), stage)
        if self.caller is None or any(node.source for node in graph.nodes):
            return graph
        return replace(graph, nodes=tuple(replace(n, source=self.caller) for n in graph.nodes))

    def _parsed(
        self, at: int, wrapper: _WrittenCode
    ) -> tuple[list[GeneratedKernel], list[KernelCall], Provenance]:
        recorded = provenance(wrapper.mappings, wrapper.stacks)
        kernels, calls = parse_wrapper(wrapper.code)
        known_calls = [replace(call, nodes=recorded.of(call), graph=at) for call in calls]
        scheduled = [node for node in self.after if node.graph == at]
        known = self.origins[at] if at < len(self.origins) else {}
        matcher = Matcher(wrapper.code, wrapper.post_grad, scheduled, known)
        matched = credited(matcher.matched(known_calls), wrapper.post_grad)
        matched = typed(matched, wrapper.post_grad)
        located = [recorded.located(call, wrapper.post_grad) for call in matched]
        dynamo = next((each for each in self.graphs if each.stage == "dynamo"), None)
        return (
            [replace(kernel, graph=at) for kernel in configured(kernels, wrapper.info)],
            named(located, dynamo, recorded.ops),
            recorded,
        )

    def _nodes(self, channel: str) -> tuple[SchedulerNode, ...]:
        """The scheduler's list of each wrapper; empty where lists and wrappers differ in number."""
        printed = [each.text for each in self.final_texts if each.channel == channel]
        if self.wrappers and len(printed) != len(self.wrappers):
            return ()
        return tuple(
            replace(node, graph=at) for at, text in enumerate(printed) for node in parse_nodes(text)
        )

    def _stack(self) -> tuple[SourceLine, ...]:
        started = (each.fields.get("stack") for each in self.records if each.kind == "dynamo_start")
        frames = next(started, None)
        listed = frames if isinstance(frames, list) else []
        return tuple(_line(each) for each in listed if isinstance(each, dict))


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")


def _line(frame: dict[str, Any]) -> SourceLine:
    number = frame.get("line")
    return SourceLine(
        str(frame.get("filename") or ""),
        number if isinstance(number, int) else 0,
        str(frame.get("name") or ""),
        str(frame.get("loc") or ""),
    )


def _function(metrics: Iterable[dict[str, Any]], stack: Sequence[SourceLine]) -> SourceLine | None:
    """The function that was compiled: as the metrics name it, or the innermost frame."""
    for each in metrics:
        file, line = each.get("co_filename"), each.get("co_firstlineno")
        if isinstance(file, str) and isinstance(line, int):
            return SourceLine(file, line, str(each.get("co_name") or ""))
    return stack[-1] if stack else None


def _caller(compiled: SourceLine | None, stack: Sequence[SourceLine]) -> SourceLine | None:
    """The innermost line of user code, where the compiled function is torch's own.

    `torch.compile(nn.Sequential(…))` compiles a function of Dynamo's that calls the module.
    """
    if compiled is None or not LIBRARY.search(compiled.file) or "_resume_in_" in compiled.function:
        return None
    return next((line for line in reversed(stack) if not LIBRARY.search(line.file)), None)


def _duration(metrics: dict[str, Any]) -> int | None:
    for name, factor in (("duration_us", 1e3), ("entire_frame_compile_time_s", 1e9)):
        value = metrics.get(name)
        if isinstance(value, int | float) and 0 < value * factor < 1e18:
            return round(value * factor)
    return None


def _failure(metrics: Iterable[dict[str, Any]]) -> str:
    """Why Dynamo gave up on the frame."""
    for each in metrics:
        if each.get("fail_type"):
            return f"{each['fail_type']}: {each.get('fail_reason') or ''}".strip(": ")
    return ""


def configured(kernels: Iterable[GeneratedKernel], payload: bytes) -> list[GeneratedKernel]:
    """The kernels with the one configuration that the record `triton_kernel_info` states.

    Torch tunes several configurations when the code runs. The record does not say which one won.
    """
    known = json_object(payload)
    return [replace(each, config=each.config | _config(known.get(each.name))) for each in kernels]


def _config(stated: Any) -> dict[str, int]:
    pairs = stated.get("only_config") if isinstance(stated, dict) else None
    found = {}
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], int):
            found[str(pair[0])] = int(pair[1])
    return found


def by_compilation(
    logs: CompilerLogs,
) -> tuple[dict[Key, list[LogRecord]], dict[Key, list[TextRecord]]]:
    """Records and messages by compilation.

    A message rarely states its rank, and never after which reset it came. A message that could
    belong to several compilations is left out.
    """
    records: dict[Key, list[LogRecord]] = {}
    resets: Counter[tuple[int | None, int]] = Counter()
    started: set[tuple[int | None, int, str]] = set()
    for record in logs.records:
        if not record.compile_id:
            continue
        process = record.rank, record.pid
        if record.kind == "dynamo_start" and record.attempt == 0:
            if (*process, record.compile_id) in started:
                resets[process] += 1
                started = {each for each in started if each[:2] != process}
            started.add((*process, record.compile_id))
        key = record.rank, record.compile_id, resets[process]
        records.setdefault(key, []).append(record)
    return records, _texts(logs, records)


def _texts(logs: CompilerLogs, records: dict[Key, list[LogRecord]]) -> dict[Key, list[TextRecord]]:
    known: dict[str, list[Key]] = {}
    for key in records:
        known.setdefault(key[1], []).append(key)
    texts: dict[Key, list[TextRecord]] = {}
    for text in logs.texts:
        keys = known.get(text.compile_id, [])
        own = keys if len(keys) == 1 else [key for key in keys if key[0] == text.rank]
        if text.compile_id and len(own) < 2:
            key = own[0] if own else (text.rank, text.compile_id, 0)
            texts.setdefault(key, []).append(text)
    return texts


def missing_records(logs: CompilerLogs, compilations: Sequence[Compilation]) -> Iterator[str]:
    """One phrase for each kind of record that is missing, and how to record it."""
    if not logs.records:
        yield "graphs and compile times (TORCH_TRACE=DIR)"
    if not any(each.code for each in compilations):
        yield "generated code: no record of Inductor"
        return
    channels = {text.channel for text in logs.texts}
    yield from (words for channel, words in _CHANNELS if channel not in channels)
    if not any(each.decompositions for each in compilations):
        yield "provenance (INDUCTOR_PROVENANCE=1)"
