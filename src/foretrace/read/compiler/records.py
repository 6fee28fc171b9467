"""What torch.compile wrote down about its work, as data: graphs, scheduler nodes, generated code.

`read/compiler` reads the records of a log, and `trace/compiled` turns them into these Structs. The
rooms above use these Structs alone. Rows that torch.compile writes into a trace are named
here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Literal

from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.base.units import sum_of_all
from foretrace.read.ledger import Ledger

# The rows that torch.compile writes into a trace (torch 2.11 to 2.13).
REGION = "Torch-Compiled Region"
GRAPH = "## Call CompiledFxGraph"
FUNCTION = "CompiledFunction"
# how the names of all rows around compiled code begin
ROWS = ("TorchDynamo", REGION, "Pregraph bytecode", "AOTDispatcher", GRAPH, FUNCTION)
_VERSION = regex(rf"{REGION}: (\d{{1,9}})/(\d{{1,9}})(?:_\d+)?")
_FRAME = regex(rf"{REGION}: \d+/\d+")
_HASH = regex(rf"{GRAPH} \S+ ##")

ITEM_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1,
    "u16": 2, "u32": 4, "u64": 8, "b8": 1, "c32": 4, "c64": 8, "c128": 16, "f8e4m3fn": 1,
    "f8e5m2": 1, "f8e4m3fnuz": 1, "f8e5m2fnuz": 1, "f8e8m0fnu": 1,
}  # fmt: skip

SHORT_TYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "bool": "b8", "complex64": "c64", "complex128": "c128",
    "complex32": "c32", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float": "f32", "double": "f64", "half": "f16", "long": "i64", "int": "i32",
}  # fmt: skip
MEMBER = regex(r"(?:op|buf)\d+")  # nodes were named by their buffers before torch 2.5
Mode = Literal["load", "store", "atomic"]
Size = int | str  # a number, or a symbol such as `s77` where the shape is dynamic


class SourceLine(Struct, frozen=True, order=True):
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    @property
    def place(self) -> str:
        """`model.py:41`: the line by the name of its file."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"


class NamedTensor(Struct, frozen=True):
    """A tensor by its name in a graph or in generated code. `dtype` is short: `bf16`.

    `offset` is where a view begins in the memory of its buffer, in elements.
    """

    name: str
    dtype: str = ""
    shape: tuple[Size, ...] = ()
    stride: tuple[Size, ...] = ()
    device: str = ""
    offset: Size = 0

    @property
    def bytes(self) -> int | None:
        """Bytes of its elements; None where a size is a symbol or the type is not known."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        item = ITEM_BYTES.get(self.dtype)
        return None if item is None or len(sizes) < len(self.shape) else item * prod(sizes)


class GraphNode(Struct, frozen=True):
    """One node of an FX graph; `inputs` are names of nodes."""

    name: str
    target: str
    inputs: tuple[str, ...] = ()
    tensor: NamedTensor | None = None
    source: SourceLine | None = None


Stage = Literal["dynamo", "joint", "forward", "backward", "inference", "post_grad"]


class FxGraph(Struct, frozen=True):
    """A graph as torch printed it."""

    stage: Stage
    nodes: tuple[GraphNode, ...] = ()
    inputs: tuple[NamedTensor, ...] = ()
    outputs: tuple[str, ...] = ()
    text: str = ""
    graph: int | None = None  # of a post-grad graph: its wrapper


class Access(Struct, frozen=True):
    """One tensor that a kernel loads or stores, and the bytes that this moves.

    Each element counts once, however often the code names it. `certainty` is `exact`, `at_least`
    (a library's kernel may go over it again), `at_most` (a mask or an index that data decides may
    leave elements out) or `unknown`.
    """

    tensor: NamedTensor
    mode: Mode
    bytes: int | None
    certainty: Literal["exact", "at_least", "at_most", "unknown"] = "exact"
    argument: str = ""
    index: str = ""


class GeneratedKernel(Struct, frozen=True):
    """A kernel that Inductor wrote: its code, and how it was configured."""

    name: str
    language: Literal["triton", "cpp", "other"]
    code: str
    config: dict[str, int] = {}  # XBLOCK, num_warps, num_stages, where the log has them
    file: str = ""
    graph: int = 0  # its wrapper: the place in `Compilation.code`


class KernelCall(Struct, frozen=True):
    """One call in the wrapper, in its order: a generated kernel, or a library's (`extern`).

    `handle` is the provenance name (`extern_kernels.mm:1`). `nodes` are post-grad graph nodes.
    """

    kernel: str
    extern: bool
    handle: str = ""
    nodes: tuple[str, ...] = ()
    sources: tuple[SourceLine, ...] = ()
    accesses: tuple[Access, ...] = ()
    graph: int = 0  # its wrapper: forward and backward use the same names
    arguments: tuple[str, ...] = ()  # as the wrapper writes them: `buf2`, `393216*s77`
    origins: tuple[str, ...] = ()  # nodes of the first graph behind it: `linear`, `gelu`
    ops: tuple[str, ...] = ()  # of those nodes after decomposition: `aten.gelu`

    @property
    def name(self) -> str:
        """Its provenance name, or else that of its kernel."""
        return self.handle or self.kernel

    @property
    def loaded(self) -> tuple[str, ...]:
        """The names of the tensors that it reads."""
        return tuple(access.tensor.name for access in self.accesses if access.mode != "store")

    @property
    def stored(self) -> tuple[str, ...]:
        """The names of the tensors that it writes."""
        return tuple(access.tensor.name for access in self.accesses if access.mode != "load")

    @property
    def bytes(self) -> int | None:
        """All bytes that the call moves; None where one access is not known."""
        return sum_of_all(each.bytes for each in self.accesses) if self.accesses else None


class SchedulerNode(Struct, frozen=True):
    """A node of Inductor's scheduler. A fused one is named by its members: `op1_op2`.

    `kind` is extern, pointwise, reduction, scan, sort, template, foreach, nop, or unpack: one of
    several results of the extern call that it reads.
    """

    name: str
    kind: str
    reads: tuple[str, ...] = ()  # buffers
    writes: tuple[str, ...] = ()
    iteration: tuple[Size, ...] = ()  # elements of the result, elements each is reduced from
    index: tuple[tuple[str, str], ...] = ()  # (buffer, `1024*d0 + d1, {d0: 8, d1: 1024}`)
    target: str = ""  # `extern_kernels.mm`
    tensors: tuple[NamedTensor, ...] = ()  # of the buffers it writes
    graph: int = 0  # forward and backward both have an `op0`
    operands: tuple[NamedTensor, ...] = ()  # of the buffers it reads, where the log has layouts
    returned: tuple[str, ...] = ()  # buffers it writes that the graph returns
    mutates: tuple[str, ...] = ()  # buffers it changes in place
    waits: tuple[str, ...] = ()  # buffers it uses no data of, but must follow: a mutation

    @property
    def members(self) -> tuple[str, ...]:
        """`op1_op2` consists of op1 and op2."""
        return tuple(MEMBER.findall(self.name)) or (self.name,)


class FusionChoice(Struct, frozen=True):
    """Two scheduler nodes that Inductor looked at together, and its own words if it refused."""

    a: str
    b: str
    fused: bool
    words: str = ""
    times: int = 1  # asked again in every round
    graph: int = 0


class Elsewhere(Struct, frozen=True):
    """The kernels of another run that compute two separated ones; `fused` computes both.

    Where they are apart there, too, `reason` is a key of `why.not_fused.REASONS`, `inductor` what
    Inductor said.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    fused: str = ""
    reason: str = ""
    inductor: str = ""


class GraphBreak(Struct, frozen=True):
    """Where Dynamo ended a graph."""

    source: SourceLine
    reason: str
    explanation: str = ""
    hint: str = ""
    url: str = ""
    skipped: bool = False  # Dynamo cannot resume here: the whole function runs eagerly


class GuardFailure(Struct, frozen=True):
    """A guard of an earlier version that did not hold: `size at index 0` of `x`, 64, 32."""

    version: str  # the compile id whose guard failed
    text: str
    subject: str = ""
    expected: str = ""
    actual: str = ""
    what: str = ""  # size at index 0, stride at index 1, rank, dtype, value, type, …


class GuardTally(Struct, frozen=True):
    """One guard over all recompilations: how often it failed, and with which values."""

    what: str
    subject: str
    caused: tuple[str, ...]  # compile ids of the recompilations
    expected: tuple[str, ...] = ()
    actual: tuple[str, ...] = ()


class CompilePhase(Struct, frozen=True):
    """A part of the compile time, nested phases included."""

    name: str
    ns: int
    depth: int = 0
    stage: str = ""  # in plain words: Dynamo, AOTAutograd, code generation, …
    own_ns: int = 0  # without nested phases: these add up to the whole


class TunedMatmul(Struct, frozen=True):
    """What max-autotune timed for one matmul: the best of all candidates, and of Triton's."""

    op: str  # mm
    shape: str  # 8192x768, 768x3072
    candidates: int
    best: str  # mm is the library's, triton_mm_17 a template
    best_ns: int
    templates: int = 0
    template_ns: int | None = None  # the best of them


class Rerecording(Struct, frozen=True):
    """A CUDA graph that was recorded again, and why."""

    compile_id: str
    function: str
    reason: str
    mode: str = ""


class Compilation(Struct, frozen=True):
    """One compile id, `0/1`: frame 0, version 1, with all that its attempts left."""

    id: str
    function: SourceLine | None = None
    rank: int | None = None
    stack: tuple[SourceLine, ...] = ()
    graphs: tuple[FxGraph, ...] = ()
    before: tuple[SchedulerNode, ...] = ()
    after: tuple[SchedulerNode, ...] = ()
    choices: tuple[FusionChoice, ...] = ()
    kernels: tuple[GeneratedKernel, ...] = ()
    calls: tuple[KernelCall, ...] = ()
    code: tuple[str, ...] = ()  # the wrappers, forward before backward
    decompositions: dict[str, tuple[str, ...]] = {}  # Dynamo node: its post-grad nodes
    breaks: tuple[GraphBreak, ...] = ()
    recompile: tuple[GuardFailure, ...] = ()  # why it was compiled again; empty at version 0
    phases: tuple[CompilePhase, ...] = ()
    compile_ns: int | None = None
    cache: dict[str, str] = {}  # kind of cache: hit, miss or bypass
    cudagraph_skips: tuple[str, ...] = ()
    failure: str = ""  # why Dynamo gave up on this frame
    mappings: tuple[dict[str, tuple[str, ...]], ...] = ()  # decompositions by wrapper
    tuned: tuple[TunedMatmul, ...] = ()  # in the order of the log

    def graph_at(self, *stages: str) -> FxGraph | None:
        """The first graph of one of these stages."""
        return next((each for each in self.graphs if each.stage in stages), None)

    def post_grad(self, graph: int) -> Iterator[GraphNode]:
        """The nodes of the post-grad graph of one wrapper."""
        for each in self.graphs:
            if each.stage == "post_grad" and each.graph in (None, graph):
                yield from each.nodes


class CompiledLaunch(Struct, frozen=True):
    """What made one launch of a trace: a call of compiled code, with the sizes that it had.

    `computed` are the lines whose work it does; the call's own lines also have views.
    """

    compilation: Compilation
    call: KernelCall
    computed: tuple[SourceLine, ...] = ()

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The lines that it comes from, as well as they are known."""
        return self.computed or self.call.sources


class CompilerRun(Struct, frozen=True):
    """All compilations of one process, or of the ranks of one job."""

    path: str
    compilations: tuple[Compilation, ...]
    ledger: Ledger
    sources: tuple[str, ...] = ()  # files that were read
    lacks: tuple[str, ...] = ()  # what was not recorded: "fusion reasons", "provenance"
    rerecordings: tuple[Rerecording, ...] = ()


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
