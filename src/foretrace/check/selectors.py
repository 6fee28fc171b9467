"""What a quantity is of: `gemm`, `gemm bf16 backward`, `copy HtoD`, `aten::mm`, `"model.py:41"`.

Words of a selector narrow each other down. A word is a group of the first screen, a role, a type, a
library, a direction of a copy, a pass, an op, a pattern of kernel names with `*`, or a line of
source in quotes. On a CPU the ops that compute stand for kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from foretrace.check.evidence import Evidence, GpuOperation
from foretrace.check.judging import DTYPES
from foretrace.check.language import Scope, Selector, Unknown, WrongText, glob, nearest
from foretrace.check.windows import Window, windows_of
from foretrace.read.compiler.records import CompilerRun
from foretrace.trace import groups
from foretrace.trace.cpu_ops import bare, cpu_does
from foretrace.trace.intervals import Bools
from foretrace.work import families
from foretrace.work.families import MATMULS, role_of_op
from foretrace.work.kernel import ROLES

KINDS = {"kernel": "kernel", "kernels": "kernel", "memcpy": "memcpy", "memcpys": "memcpy"}
KINDS |= {"memset": "memset", "memsets": "memset"}
DIRECTIONS = ("htod", "dtoh", "dtod", "ptop", "pageable", "pinned")
LIBRARIES = """
aten cublas cudnn cutlass cub flash inductor liger mem_efficient miopen nccl nvjet tensile triton
vllm xmma
"""
ORDINALS = {"first": 0, "second": 1, "third": 2, "last": -1}
_NAMED = re.compile(r", M=\d+$| \([^()]*\)$")  # behind a group of the first screen
_LINE = re.compile(r"[^*]+\.py(?::\d+)?")
NO_RECORDS = (
    "the compiler's records are not beside the trace: record with `foretrace record --why` or "
    "`capture(why=True)`"
)
NO_CALLS = "no runtime or driver calls in this trace: record with ProfilerActivity.CUDA"
# Whether an operation is what a word says; None where the trace does not say.
Test = Callable[[Evidence, int], bool | None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """`sure` are rows of `trace.gpu` where `on_gpu`, else host events; so are `maybe`, of which the
    trace does not say. `lost` more may exist; `gap` says why there may be any number more.
    """

    on_gpu: bool
    sure: list[int]
    maybe: tuple[int, ...] = ()
    lost: int = 0
    gap: str = ""

    @property
    def most(self) -> float:
        """How many there can be."""
        return float("inf") if self.lost or self.gap else len(self.sure) + len(self.maybe)

    def why(self, text: str) -> str:
        """Why the number is not certain."""
        if self.maybe:
            return f"the trace does not say whether {len(self.maybe):,} kernels are `{text}`"
        return self.gap or f"{self.lost:,} launches have no GPU event in the trace"

    @property
    def certain(self) -> bool:
        """Whether nothing more can match."""
        return not (self.maybe or self.lost or self.gap)


def group_word(name: str) -> str:
    """A group of the first screen as a word of the language: `residual_add`, `rmsnorm`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


@cache
def _groups() -> dict[str, str]:
    return {group_word(group.name): group.name for group in groups.every()}


def words(evidence: Evidence) -> list[str]:
    """Every word that a selector may have on this trace: for hints."""
    ops = {bare(name) for name in evidence.trace.host.names if "::" in name}
    return list(dict.fromkeys([*vocabulary(), *sorted(ops)]))


@cache
def vocabulary() -> list[str]:
    """Those that need no trace: for `explain` and completion."""
    further = ["copy", *DIRECTIONS, "backward", "forward", "compute", "tensor_cores", "cast"]
    return [*_groups(), *ROLES, *DTYPES, *LIBRARIES.split(), *KINDS, *further]


def choose(window: Window, selector: Selector) -> Chosen:
    """The matches in order: GPU operations by launch, host events by start."""
    parts = _split(selector)
    evidence = window.evidence
    if evidence.runs_on_cpu:
        return _on_cpu(window, selector, parts)
    window.need_gpu()
    ordinal = next((ORDINALS[word] for word, _ in parts if word in ORDINALS), None)
    tests, kinds = list[Test](), {"kernel"}
    of_kernels = any(KINDS.get(word.lower()) == "kernel" for word, _ in parts)  # `copy kernel`
    rest = iter(pair for pair in parts if pair[0] not in ORDINALS)
    for word, quoted in rest:
        low = word.lower()
        if quoted and _NAMED.sub("", word) in evidence.trace.grouped.names:
            shown = evidence.groups(window.region)
            if word not in shown:
                near = ", ".join(nearest(word, list(shown)))
                raise WrongText(selector.text, 0, f"no group `{word}`", f"did you mean {near}?")
            kinds = {"kernel", "memcpy", "memset"}
            tests.append(_in_group(shown[word]))
        elif low in KINDS:
            kinds = {KINDS[low]}
        elif (low in ("copy", "copies") and not of_kernels) or low in DIRECTIONS:
            kinds = {"memcpy"}
            tests += [_direction(low)] if low in DIRECTIONS else []
        elif word in _BELOW and not quoted:
            name = next(rest, ("", False))[0]
            if not name:
                raise WrongText(selector.text, 0, f"`{word}` needs a name behind it")
            tests.append(_BELOW[word](name))
        else:
            tests.append(_test(evidence, word, selector))
    sure, maybe = [], []
    for row in window.rows.tolist():
        if evidence.operation(row).kind not in kinds:
            continue
        answers = [test(evidence, row) for test in tests]
        if all(answers):
            sure.append(row)
        elif False not in answers:
            maybe.append(row)
    if ordinal is None:
        return Chosen(True, sure, tuple(maybe), window.lost, window.gap)
    if maybe or window.lost or window.gap:
        raise Unknown(f"which is the `{selector.text}` is not certain")
    at = ordinal if ordinal >= 0 else len(sure) + ordinal
    return Chosen(True, sure[at : at + 1] if at >= 0 else [])


_PARTS = re.compile(r'"([^"]*)"|([^\s"]+)')


def _split(selector: Selector) -> list[tuple[str, bool]]:
    """The words of a selector, and whether each is quoted."""
    parts = [(quoted or word, not word) for quoted, word in _PARTS.findall(selector.text)]
    if not all(text for text, _ in parts) or not parts:
        raise WrongText(selector.text, 0, "an empty name chooses nothing")
    return [("kernel", False)] if parts == [("*", False)] else parts


# roles that are groups of the first screen too: with what belongs to them
_NAMED_GROUPS = ("attention", "softmax", "optimizer")


def _test(evidence: Evidence, word: str, selector: Selector) -> Test:
    low = word.lower()
    if low in DTYPES:
        return lambda evidence, row: evidence.is_type(row, DTYPES[low])
    if low in ("backward", "forward"):
        return _pass(low)
    if low in ("matmul", "matmuls") or (low in ROLES and low not in _NAMED_GROUPS):
        return _role("gemm" if low.startswith("matmul") else low)
    if low in _groups():
        name = _groups()[low]
        return lambda evidence, row: (
            _group_of(evidence, row) == name or _does(evidence.operation(row), low)
        )
    if low == "compute":
        return lambda evidence, row: evidence.operation(row).role != "comms"
    if low == "tensor_cores":
        return lambda evidence, row: evidence.fact(row, "tensor_core")
    if low == "cast":
        return lambda evidence, row: evidence.is_cast(row)
    if low in LIBRARIES.split():
        return lambda evidence, row: evidence.is_library(row, low)
    if _LINE.fullmatch(word):
        return _line(word)
    if "::" in word:
        return lambda evidence, row: (  # `aten::mm` is an op, `void at::native::*` a kernel
            any(glob(word, op) for op in evidence.operation(row).chain)
            or _named(evidence.operation(row), word)
        )
    if "*" in word or "(" in word or word in _kernel_names(evidence):
        return lambda evidence, row: _named(evidence.operation(row), word)
    if _is_op(evidence, word):
        return lambda evidence, row: _does(evidence.operation(row), word)
    near = nearest(word, words(evidence))
    hint = f"did you mean {', '.join(near)}?" if near else "`foretrace docs check` lists the words"
    raise WrongText(
        selector.text, max(selector.text.find(word), 0), f"no kernels are called `{word}`", hint
    )


def _kernel_names(evidence: Evidence) -> set[str]:
    names = {one.name for one in evidence.operations} | {one.label for one in evidence.operations}
    return names | {one.function for one in evidence.operations}


def _is_op(evidence: Evidence, word: str) -> bool:
    """Whether a word is an op: one that the trace has, or that ATen or a compiler names."""
    known = any(word in one.does or word in one.may_do for one in evidence.operations)
    return known or f"aten::{word}" in evidence.trace.host.names or families.is_op(word)


def _named(operation: GpuOperation, pattern: str) -> bool:
    shared = families.decode(operation.name).short
    return any(
        glob(pattern, name)
        for name in (operation.name, operation.function, operation.label, shared)
    )


def _does(operation: GpuOperation, word: str) -> bool | None:
    """Whether a kernel does an op. A copy below a matmul is none, and neither is attention."""
    if word in MATMULS:
        return word in operation.does and operation.role in ("gemm", "gemv")
    if word == "add" and operation.role in ("gemm", "gemv", "conv"):
        return "aten::add" in operation.chain  # a bias in its epilogue makes no matmul an add
    if word in operation.does or f"aten::{word}" in operation.chain:
        return True
    return None if word in operation.may_do else False


def _group_of(evidence: Evidence, row: int) -> str:
    return str(evidence.trace.work_groups[row])


def _role(role: str) -> Test:
    return lambda evidence, row: evidence.operation(row).role == role


def _in_group(name: str) -> Test:
    return lambda evidence, row: _group_of(evidence, row) == name


def _direction(word: str) -> Test:
    def test(evidence: Evidence, row: int) -> bool | None:
        name = evidence.operation(row).name.lower()
        said = any(kind in name for kind in ("pageable", "pinned"))
        if word in ("pageable", "pinned") and not said and ("htod" in name or "dtoh" in name):
            return None
        return word in name

    return test


def _pass(word: str) -> Test:
    def test(evidence: Evidence, row: int) -> bool | None:
        work = evidence.operation(row)
        if word == "backward":
            named = re.search(
                r"backward|_bwd|_bprop|\bbn_bw", f"{work.name} {work.ident.get('op')}"
            )
            return bool(named or evidence.in_engine[row]) or (False if work.chain else None)
        if not evidence.has_backward:  # nothing says where the forward pass ends
            return True if re.search(r"forward|_fwd|_fprop", work.name) else None
        if evidence.trace.gpu.launch[row] < 0 or "Graph" in evidence.launch_name(row):
            return None
        return bool(evidence.is_forward[row])

    return test


def _stream(name: str) -> Test:
    return lambda evidence, row: str(evidence.trace.gpu.stream[row]) == name


def _module(name: str) -> Test:
    def test(evidence: Evidence, row: int) -> bool:
        if ("module", name) not in evidence.masks:
            inside: Bools = np.zeros(len(evidence.trace.gpu), bool)
            for window in windows_of(Scope("module", name), evidence):
                inside[window.rows] = True
            evidence.masks["module", name] = inside
        return bool(evidence.masks["module", name][row])

    return test


def _under(name: str) -> Test:
    return lambda evidence, row: any(glob(name, op) for op in evidence.operation(row).chain)


_BELOW: dict[str, Callable[[str], Test]] = {"stream": _stream, "module": _module, "under": _under}


def _line(place: str) -> Test:
    def test(evidence: Evidence, row: int) -> bool | None:
        run: CompilerRun | None = evidence.trace.compiler_run
        launch = evidence.trace.compiled.get(int(evidence.trace.gpu.id[row]))
        if launch is not None:
            file, _, line = place.partition(":")
            from foretrace.trace.compiled.provenance import comes_from

            return comes_from(launch, file, int(line) if line else None)
        source = evidence.source(row)
        if source is not None:
            return glob(f"*{place}" if ":" in place else f"*{place}:*", source)
        if run is None:
            raise Unknown(NO_RECORDS)
        return False

    return test


def _on_cpu(window: Window, selector: Selector, parts: list[tuple[str, bool]]) -> Chosen:
    """The calls of ops that stand for kernels on a CPU."""
    host, evidence = window.evidence.trace.host, window.evidence
    mask: Bools = evidence.computing.copy()
    for word, _ in parts:
        low = word.lower()
        if low in ("kernel", "kernels"):
            continue
        if low == "optimizer":
            mask = host.is_region & host.named(lambda name: name.startswith("Optimizer.step#"))
        elif low in ROLES or low in ("matmul", "matmuls"):
            role = "gemm" if low.startswith("matmul") else low
            mask &= host.named(lambda name, role=role: role_of_op(bare(name)) == role)  # type: ignore[misc]
        elif "::" in word or "*" in word:
            mask = host.is_op & host.named(lambda name, word=word: glob(word, name))  # type: ignore[misc]
        elif _is_op(evidence, low):
            own = host.named(lambda name, op=low: bare(name) == op or op in cpu_does(name))  # type: ignore[misc]
            mask = (evidence.computing if low in MATMULS else host.is_op) & own
        else:
            window.need_gpu()
    mask = mask & host.lasting
    events = np.array(window.events(mask), np.int64)
    if (mask & ~evidence.computing).any():  # wrappers: what one calls is a part of it
        events = events[host.nearest(host.parent[events], mask) < 0]
    return Chosen(False, events.tolist(), gap=window.gap)


def host_events(window: Window, text: str, kind: str = "call") -> list[int]:
    """Host events by name: an op (`aten::t`, `item`), a runtime call, a region; with `*`. One of
    them is `second aten::mm`, and `op` is any op.
    """
    host = window.evidence.trace.host
    first, _, rest = text.partition(" ")
    if first in ORDINALS and rest:
        every, at = host_events(window, rest, kind), ORDINALS[first]
        return every[at : at + 1 or None] if at < len(every) else []
    if text == "op":
        kind, text = "op", "*"
    pattern = text.strip('"')
    names = [pattern, f"aten::{pattern}"] if re.fullmatch(r"\w+", pattern) else [pattern]
    mask = host.named(lambda name: any(glob(each, name) for each in names))
    if kind == "op":
        mask &= host.is_op
    events: list[int] = window.events(
        mask & (host.is_op | host.is_call | host.is_region | host.is_step)
    ).tolist()
    if not events and not host.is_op.any() and not host.is_call.any():
        raise Unknown(
            "no host events in this trace: ProfilerActivity.CPU was off, or a CUDA graph ran"
        )
    if not events and re.match(r"cuda|hip|cu[A-Z]", pattern) and not host.is_call.any():
        raise Unknown(NO_CALLS)
    return events
