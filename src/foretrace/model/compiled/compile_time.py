"""What compiling cost by phase, what the caches answered, and CUDA graphs that were not used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from foretrace.schema.compiler import Compilation, CompilePhase, Rerecording

if TYPE_CHECKING:
    from foretrace.read.compiler import LogRecord, TextRecord

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
_CACHE = re.compile(r"(fx_graph|aotautograd)(?:_bundled)?_cache_(hit|miss|bypass|hash)")
_DISABLED = re.compile(r"(fx_graph|autograd)_cache_(disabled)")
_CACHES = {"fx_graph": "FX graph", "aotautograd": "AOTAutograd", "autograd": "AOTAutograd"}
_SKIP = "skipping cudagraphs due to "
_FRAME = re.compile(r'\s*File "([^"]*)", line (\d{1,9})')
_AGAIN = re.compile(
    r"\[([^]]{0,99})\] Re-recording function=([^,]{0,999}),(?: mode=(\w*),)? reason=(.*)"
)


class PhaseEvent(Struct):
    """The fields of a `chromium_event` that say when a phase began or ended."""

    name: str
    ph: str
    ts: Annotated[float, Meta(ge=0, le=4e15)]  # us, before the year 2096: fits into 64 bits of ns
    tid: int | str = 0
    pid: int | str = 0


class _Open(Struct):
    name: str
    path: tuple[str, ...]
    began: float


def phases(records: Iterable[LogRecord]) -> tuple[CompilePhase, ...]:
    """Phases with their nested ones after them; one that ran several times is one phase.

    A phase without an end, as after a crash, has no time and is left out.
    """
    times: dict[tuple[str, ...], float] = {}
    stacks: dict[tuple[Any, Any], list[_Open]] = {}
    for event in _events(records):
        stack = stacks.setdefault((event.pid, event.tid), [])
        if event.ph == "B":
            path = (*(stack[-1].path if stack else ()), event.name)
            times.setdefault(path, 0.0)
            stack.append(_Open(event.name, path, event.ts))
        elif event.ph == "E" and any(each.name == event.name for each in stack):
            while stack and (last := stack.pop()):
                if last.name == event.name:
                    times[last.path] += max(event.ts - last.began, 0.0)
                    break
    inside: Counter[tuple[str, ...]] = Counter()
    for path, us in times.items():
        inside[path[:-1]] += round(us * 1000)
    return tuple(_phase(path, round(times[path] * 1000), inside[path]) for path in _nested(times))


def stage_times(found: Iterable[CompilePhase]) -> dict[str, int]:
    """Nanoseconds by stage, nested time counted once: they add up to the outer phases."""
    spent: Counter[str] = Counter()
    for each in found:
        spent[each.stage] += each.own_ns
    return {stage: ns for stage, ns in spent.most_common() if ns}


def cache_states(records: Iterable[LogRecord]) -> dict[str, str]:
    """What each cache answered: hit, miss, disabled, or bypass with its reason."""
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
        for part in text.split(_SKIP)[1:]:
            reason = part.partition("\n")[0].strip().removesuffix(". Found from :").rstrip(".")
            lines = (_FRAME.match(line) for line in part.split("\n")[1:])
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
    for skip in found:
        at = [place for place, each in enumerate(made) if _has_line(each, skip)]
        if len(at) == 1:
            known = dict.fromkeys((*made[at[0]].cudagraph_skips, skip))
            made[at[0]] = replace(made[at[0]], cudagraph_skips=tuple(known))
    return tuple(made)


def _has_line(compilation: Compilation, skip: str) -> bool:
    lines = (node.source for graph in compilation.graphs for node in graph.nodes if node.source)
    return any(skip.endswith(f"({line.file}:{line.line})") for line in lines)


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


def _nested(times: dict[tuple[str, ...], float]) -> list[tuple[str, ...]]:
    """Paths of phases that ended, each before the phases inside it, in the order they began."""
    place = {path: number for number, path in enumerate(times)}
    known = [path for path in times if times[path] > 0]
    return sorted(known, key=lambda path: [place[path[: n + 1]] for n in range(len(path))])


def _phase(path: tuple[str, ...], ns: int, inside: int) -> CompilePhase:
    stage = next((known for name in reversed(path) if (known := _stage(name))), "other")
    return CompilePhase(path[-1], ns, len(path) - 1, stage, max(ns - inside, 0))


def _stage(name: str) -> str:
    return next((stage for begin, stage in STAGES if name.startswith(begin)), "")


def _answers(record: LogRecord) -> Iterator[tuple[str, str]]:
    if found := _CACHE.fullmatch(record.name):
        told = _object(record.payload)
        state = found[2] if found[2] != "hash" else str(told.get("cache_state") or "")
        why = str(told.get("cache_bypass_reason") or "") if state == "bypass" else ""
        if state:
            yield _CACHES[found[1]], f"{state}: {why}" if why else state
    elif record.kind == "chromium_event" and b"_cache_disabled" in record.payload:
        if found := _DISABLED.fullmatch(str(_object(record.payload).get("name") or "")):
            yield _CACHES[found[1]], found[2]
    elif record.name == "triton_kernel_info":
        for info in _object(record.payload).values():
            state = str(info.get("autotune_cache_state") or "") if isinstance(info, dict) else ""
            if state:
                yield "Triton autotuning", "disabled" if state == "force_disabled" else state


def _object(payload: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
