"""What torch logged about compiling: graph breaks, failed guards, compile time, CUDA graphs.

A graph break has the user's line, torch's reason, its explanation, hint and page. The structured
log and the log text use the same words. This module reads the wordings of torch 2.4 to 2.13. What a
version does not log stays empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.read.compiler.records import (
    Compilation,
    CompilePhase,
    GraphBreak,
    GuardFailure,
    Rerecording,
    SourceLine,
    TunedMatmul,
)
from foretrace.trace.compiled.syntax import json_object

if TYPE_CHECKING:
    from foretrace.read.compiler import LogRecord, TextRecord

BREAK_RECORD = "dynamo_graph_break_reason"
_FRAME = regex(r'\s*File "([^"]*)", line (\d{1,9}), in (.*)')
_ENDS = ("User code traceback:", "Traceback (most recent call last):")
_SKIPS = ("Graph break: skip", "Graph break: torch.compile cannot properly resume", "WON'T CONVERT")
_VISIT = "please visit: "
_FIELDS = ("Explanation:", "Hint:", "Developer debug context:")
RECOMPILE_RECORD = "recompile_reasons"
CHANNELS = frozenset({"recompiles", "recompiles_verbose"})
_VERSION = regex(r"(!?\d+(?:/\d+)+(?:_\d+)?): (.*)")
# `tensor 'x' size mismatch at index 0. expected 64, actual 32`
_TENSOR = regex(r"tensor '(.{1,1000}?)' ([a-z_ ]{1,40}) mismatch( at index \d+)?\. expected ")
_CHECK = regex(r"___check_(obj|type)_id\(([^,]*),")
_STACK = "User stack trace:"
MOST_VERSIONS = 64  # torch gives up on a function after 8, or 256 over all its callers
_LIMIT = regex(r"torch\._dynamo hit config\.(\w+) \((\d+)\)")
# How names of phases begin, torch 2.4 to 2.13. One without a stage belongs to the phase around it.
STAGES = (
    ("dynamo", "Dynamo"), ("entire_frame_compile", "Dynamo"), ("_compile.compile_inner", "Dynamo"),
    ("build_guards", "guards"),
    ("backend_compile", "AOTAutograd"), ("OutputGraph.call_user_compiler", "AOTAutograd"),
    ("create_aot_dispatcher_function", "AOTAutograd"), ("entire_backward_compile", "AOTAutograd"),
    ("_recursive_", "graph passes"), ("compile_fx", "Inductor"), ("inductor_compile", "Inductor"),
    ("fx_codegen_and_compile", "Inductor"), ("GraphLowering.run", "lowering"),
    ("Scheduler.__init__", "scheduling"),
    ("code_gen", "code generation"), ("GraphLowering.codegen", "code generation"),
    ("Scheduler.codegen", "code generation"), ("PythonWrapperCodegen", "code generation"),
    ("PyCodeCache.load", "kernel compilation"), ("async_compile", "kernel compilation"),
    ("compile_file", "kernel compilation"), ("CachingAutotuner.synchronize", "kernel compilation"),
    ("CachingAutotuner.benchmark", "autotuning"), ("pad_mm_benchmark", "autotuning"),
    ("TritonBenchmarker", "autotuning"), ("InductorBenchmarker", "autotuning"),
    ("remote_fx_graph_cache", "caches"), ("inductor_codecache", "caches"),
    ("AOTAutogradCache", "caches"), ("TritonBundler", "caches"), ("gc", "garbage collection"),
)  # fmt: skip
_CACHE = regex(r"(fx_graph|aotautograd)(?:_bundled)?_cache_(hit|miss|bypass|hash)")
_DISABLED = regex(r"(fx_graph|autograd)_cache_(disabled)")
_CACHES = {"fx_graph": "FX graph", "aotautograd": "AOTAutograd", "autograd": "AOTAutograd"}
_USER_FRAME = regex(r'\s*File "([^"]*)", line (\d{1,9})')
_AGAIN = regex(
    r"\[([^]]{0,99})\] Re-recording function=([^,]{0,999}),(?: mode=(\w*),)? reason=(.*)"
)


def graph_breaks(
    records: Iterable[LogRecord], texts: Iterable[TextRecord]
) -> tuple[GraphBreak, ...]:
    """Each break of one compilation once, however many records report it."""
    payloads = (r.payload.decode(errors="replace") for r in records if r.name == BREAK_RECORD)
    written = (record.text for record in texts if record.channel == "graph_breaks")
    found: dict[tuple[str, int], GraphBreak] = {}
    for text in (*payloads, *written):
        for message in _messages(text):
            each = _break(message)
            if each is not None:
                found.setdefault((each.source.file, each.source.line), each)
    return tuple(found.values())


def resume_name(each: GraphBreak) -> str:
    """Dynamo's name for the rest of the function, which it compiles separately."""
    return f"torch_dynamo_resume_in_{each.source.function}_at_{each.source.line}"


ByFunction = dict[tuple[int | None, str], list[Compilation]]  # by rank and name


def by_function(compilations: Iterable[Compilation]) -> ByFunction:
    """The compilations of each function, the first `MOST_VERSIONS` of one name."""
    found: ByFunction = {}
    for each in compilations:
        if each.function:
            versions = found.setdefault((each.rank, each.function.function), [])
            versions += [each] if len(versions) < MOST_VERSIONS else []
    return found


def _messages(text: str) -> Iterator[list[str]]:
    """One text may hold several messages; each begins with its own head."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("Graph break", "WON'T CONVERT")) and lines:
            yield lines
            lines = []
        lines.append(line)
    yield lines


def _break(lines: list[str]) -> GraphBreak | None:
    head = lines[0] if lines else ""
    told = next((i for i, line in enumerate(lines) if line.startswith(_ENDS[1])), len(lines))
    source = _place(head, lines[:told])
    if source is None or not head.startswith(("Graph break", "WON'T CONVERT")):
        return None
    body = _reason_lines(lines, told)
    reason, fields = _fields(body)
    url = next((line.partition(_VISIT)[2].strip() for line in body if _VISIT in line), "")
    hint = "\n".join(fields["Hint:"])
    explanation = "\n".join(fields["Explanation:"])
    return GraphBreak(source, reason, explanation, hint, url, head.startswith(_SKIPS))


def _place(head: str, lines: list[str]) -> SourceLine | None:
    """The line of the break: from the head, or the innermost frame of the user's code."""
    frames = [(i, found) for i, line in enumerate(lines) if (found := _FRAME.match(line))]
    file, _, number = head.partition("in user code at ")[2].strip().rpartition(":")
    if not number.isdecimal():
        if not frames:
            return None
        file, number = frames[-1][1][1], frames[-1][1][2]
    for i, found in reversed(frames):
        if (found[1], found[2]) == (file, number):
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            return SourceLine(file, int(number), found[3].strip(), code)
    return SourceLine(file, int(number))


def _reason_lines(lines: list[str], told: int) -> list[str]:
    """The lines of the reason; in older logs the exception at the end of the traceback has it."""
    for i, line in enumerate(lines[:told]):
        for word in ("Graph Break Reason: ", "Reason: "):
            if line.startswith(word):
                rest = [line.removeprefix(word), *lines[i + 1 : told]]
                end = next((k for k, one in enumerate(rest) if one.startswith(_ENDS)), len(rest))
                return rest[:end]
    ends = [i for i, line in enumerate(lines) if line.startswith("torch._dynamo.exc.")]
    last = ends[0] if ends else len(lines)
    return [line.partition(": ")[2] if i == 0 else line for i, line in enumerate(lines[last:])]


def _fields(body: list[str]) -> tuple[str, dict[str, list[str]]]:
    """Torch's name of the break, and its indented fields, each of which may have several lines."""
    fields: dict[str, list[str]] = {name: [] for name in _FIELDS}
    reason, current, before = "", None, ""
    for line in body:
        text = line.strip()
        name = next((name for name in _FIELDS if line.startswith(f"  {name}")), None)
        if name:
            reason = reason or before
            current = fields[name]
            current.append(text.removeprefix(name).strip())
        elif not text:
            current = None
        elif current is not None:
            current[-1] = f"{current[-1]} {text}"
        else:
            before = text
    first = next((line.strip() for line in body if line.strip()), "")
    return (reason or first).removeprefix("Unsupported: "), fields


def guard_failures(
    records: Iterable[LogRecord], texts: Iterable[TextRecord]
) -> tuple[GuardFailure, ...]:
    """The guards that failed before one compilation, one for each earlier version."""
    told = [one for r in records if r.name == RECOMPILE_RECORD for one in _listed(r.payload)]
    lines = (line for r in texts if r.channel in CHANNELS for line in r.text.splitlines())
    found = [_guard(text) for text in (*told, *_written(lines))]
    return tuple(dict.fromkeys(found))


def limit_reached(texts: Iterable[TextRecord]) -> str:
    """`recompile_limit (8)` where Dynamo gave up on a function for it; `cache_size_limit` once."""
    found = (_LIMIT.match(text.text) for text in texts if text.text.startswith("torch._dynamo hit"))
    return next((f"{each[1]} ({each[2]})" for each in found if each), "")


def _listed(payload: bytes) -> list[str]:
    """The reasons in a payload: one as plain text, several as a JSON list."""
    text = payload.decode(errors="replace").strip()
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return [text.partition(f"\n{_STACK}")[0]] if text else []
    several = found if isinstance(found, list) else [found]
    return [str(one).partition(f"\n{_STACK}")[0] for one in several]


def _written(lines: Iterable[str]) -> Iterator[str]:
    """The listed guards of a message; a stack may follow each of them."""
    in_stack = False
    for line in lines:
        text = line.strip()
        if not text.startswith("- "):
            continue
        text = text.removeprefix("- ").strip()
        if _VERSION.match(text):
            in_stack = False
        in_stack = in_stack or text.startswith(_STACK)
        if not in_stack and text:
            yield text


def _guard(text: str) -> GuardFailure:
    versioned = _VERSION.match(text)
    version, guard = (versioned[1], versioned[2]) if versioned else ("", text)
    guard = guard.strip()
    if found := _TENSOR.match(guard):
        expected, _, actual = guard[found.end() :].partition(", actual ")
        kind = "stride" if found[2] == "strides" else found[2]  # `strides` before torch 2.1
        what = f"{kind}{found[3] or ''}"
        return GuardFailure(version, guard, found[1], expected, actual, what)
    if found := _CHECK.match(guard):
        what = "object" if found[1] == "obj" else "type"
        return GuardFailure(version, guard, found[2].strip(), what=what)
    # A guard as code, `n == 3 # file.py:12 in f`: it states the expected value only
    code = guard.partition("  #")[0].strip()
    left, equal, right = code.partition(" == ")
    if equal and " == " not in right and " and " not in code and " or " not in code:
        return GuardFailure(version, guard, left.strip(), right.strip(), "", "value")
    return GuardFailure(version, guard)


class PhaseEvent(Struct):
    """The fields of a `chromium_event` that say when a phase began or ended."""

    name: str
    ph: str
    ts: Annotated[float, Meta(ge=0, le=4e15)]  # us, before the year 2096: fits into 64 bits of ns
    tid: int | str = 0
    pid: int | str = 0


class _Timed(Struct):
    """A phase under its parent: `inner` are the places of phases in it, in the order they began."""

    name: str
    depth: int
    stage: str
    us: float = 0.0
    inner: dict[str, int] = field(default_factory=dict)


def phases(records: Iterable[LogRecord]) -> tuple[CompilePhase, ...]:
    """Phases with their nested ones after them; one that ran several times is one phase.

    A phase without an end, as after a crash, has no time and is left out.
    """
    found = [_Timed("", -1, "")]
    stacks: dict[tuple[Any, Any], list[tuple[int, float]]] = {}
    begun: Counter[tuple[Any, Any, str]] = Counter()
    for event in _events(records):
        thread = (event.pid, event.tid)
        stack = stacks.setdefault(thread, [])
        if event.ph == "B":
            stack.append((_inside(found, stack[-1][0] if stack else 0, event.name), event.ts))
            begun[*thread, event.name] += 1
        elif event.ph == "E" and begun[*thread, event.name]:
            name = ""
            while name != event.name:
                at, began = stack.pop()
                name = found[at].name
                begun[*thread, name] -= 1
            found[at].us += max(event.ts - began, 0.0)
    return tuple(_ended(found))


def _inside(found: list[_Timed], parent: int, name: str) -> int:
    """The place of a phase under its parent; a new one is put at the end."""
    above = found[parent]
    at = above.inner.setdefault(name, len(found))
    if at == len(found):
        stages = (stage for begin, stage in STAGES if name.startswith(begin))
        found.append(_Timed(name, above.depth + 1, next(stages, above.stage)))
    return at


def _ended(found: list[_Timed]) -> Iterator[CompilePhase]:
    """Phases that ended, each before the phases inside it, in the order they began."""
    times, waiting = [round(each.us * 1000) for each in found], [0]
    while waiting:
        at = waiting.pop()
        each = found[at]
        if each.us > 0:
            own = max(times[at] - sum(times[inner] for inner in each.inner.values()), 0)
            yield CompilePhase(each.name, times[at], each.depth, each.stage or "other", own)
        waiting += reversed(each.inner.values())


def stage_times(found: Iterable[CompilePhase]) -> dict[str, int]:
    """Nanoseconds by stage, nested time counted once: they add up to the outer phases."""
    spent: Counter[str] = Counter()
    for each in found:
        spent[each.stage] += each.own_ns
    return {stage: ns for stage, ns in spent.most_common() if ns}


class _Stats(Struct):
    """`autotune_choices_stats`: times in ms."""

    best_kernel: str
    best_time: Annotated[float, Meta(ge=0, le=1e9)]
    num_choices: int = 0
    num_triton_choices: int = 0
    best_triton_time: Annotated[float, Meta(ge=0, le=1e9)] | None = None


def tuned(records: Iterable[LogRecord]) -> tuple[TunedMatmul, ...]:
    """What tuning timed for each matmul, in the order of the log."""
    return tuple(
        each
        for record in records
        if record.kind == "chromium_event" and b"autotune_choices_stats" in record.payload
        for each in _tuned(record)
    )


def _tuned(record: LogRecord) -> Iterator[TunedMatmul]:
    event = json_object(record.payload)
    told = event.get("args")
    told = told if isinstance(told, dict) else {}
    try:
        stats = msgspec.json.decode(str(told.get("autotune_choices_stats")), type=_Stats)
    except (msgspec.DecodeError, RecursionError):
        return
    op = str(event.get("name") or "").removesuffix("_template_autotuning")
    template = stats.best_triton_time
    yield TunedMatmul(
        op,
        str(told.get("autotune_shape") or ""),
        stats.num_choices,
        stats.best_kernel,
        round(stats.best_time * 1e6),
        stats.num_triton_choices,
        None if template is None else round(template * 1e6),
    )


def cache_states(records: Iterable[LogRecord]) -> dict[str, str]:
    """The answer of each cache: hit, miss, disabled, or bypass with its reason."""
    answers: dict[str, list[str]] = {}
    for record in records:
        for cache, answer in _answers(record):
            answers.setdefault(cache, []).append(answer)
    return {cache: ", ".join(dict.fromkeys(found)) for cache, found in answers.items()}


def cudagraph_skips(records: Iterable[LogRecord], texts: Iterable[TextRecord]) -> tuple[str, ...]:
    """Why CUDA graphs were not used; with the user's line where torch names it."""
    told = [str(record.fields.get("cudagraph_skip_reason") or "") for record in records]
    found: dict[str, str] = {}
    for text in (*told, *(record.text for record in texts)):
        for part in text.split("skipping cudagraphs due to ")[1:]:
            reason = part.partition("\n")[0].strip().removesuffix(". Found from :").rstrip(".")
            lines = (_USER_FRAME.match(line) for line in part.split("\n")[1:])
            place = [f"{frame[1]}:{frame[2]}" for frame in lines if frame]
            if reason and not found.get(reason):
                found[reason] = place[-1] if place else ""
    return tuple(f"{reason} ({place})" if place else reason for reason, place in found.items())


def with_skips(
    compilations: Sequence[Compilation], texts: Iterable[TextRecord]
) -> tuple[Compilation, ...]:
    """Compilations with the skips that torch finds at run time, when it names only a line.

    A skip belongs to the one compilation whose graph has that line.
    """
    found = cudagraph_skips((), [text for text in texts if not text.compile_id])
    made = list(compilations)
    nodes = [[node for graph in each.graphs for node in graph.nodes] for each in made]
    lines = [{f"({n.source.file}:{n.source.line})" for n in each if n.source} for each in nodes]
    for skip in found:
        at = [place for place, each in enumerate(lines) if skip.endswith(tuple(each))]
        if len(at) == 1:
            known = dict.fromkeys((*made[at[0]].cudagraph_skips, skip))
            made[at[0]] = replace(made[at[0]], cudagraph_skips=tuple(known))
    return tuple(made)


def rerecordings(texts: Iterable[TextRecord]) -> tuple[Rerecording, ...]:
    """CUDA graphs recorded again. The message names its compilation, since it comes at run time."""
    return tuple(
        Rerecording(found[1], found[2], found[4].strip().rstrip("."), found[3] or "")
        for record in texts
        if "Re-recording" in record.text
        for line in record.text.splitlines()
        if (found := _AGAIN.match(line.strip()))
    )


def _events(records: Iterable[LogRecord]) -> Iterator[PhaseEvent]:
    for record in records:
        if record.kind == "chromium_event":
            try:
                yield msgspec.json.decode(record.payload, type=PhaseEvent)
            except (msgspec.DecodeError, RecursionError):
                continue


def _answers(record: LogRecord) -> Iterator[tuple[str, str]]:
    if found := _CACHE.fullmatch(record.name):
        told = json_object(record.payload)
        state = found[2] if found[2] != "hash" else str(told.get("cache_state") or "")
        why = str(told.get("cache_bypass_reason") or "") if state == "bypass" else ""
        if state:
            yield _CACHES[found[1]], f"{state}: {why}" if why else state
    elif record.kind == "chromium_event" and b"_cache_disabled" in record.payload:
        if found := _DISABLED.fullmatch(str(json_object(record.payload).get("name") or "")):
            yield _CACHES[found[1]], found[2]
    elif record.name == "triton_kernel_info":
        for info in json_object(record.payload).values():
            state = str(info.get("autotune_cache_state") or "") if isinstance(info, dict) else ""
            if state:
                yield "Triton autotuning", "disabled" if state == "force_disabled" else state
