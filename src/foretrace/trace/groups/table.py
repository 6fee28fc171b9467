"""What the layers of a model do, what training adds, and what is named after its kernel.

`WorkGroup`: what a model's author calls some of the GPU work; `GpuWork`: what it is found from.

A million launches are some hundred kinds. Every kernel is one word, every word one character, so
that a stream is a text and a pattern a regular expression: a million kernels take a fraction of a
second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import coded
from foretrace.base.patterns import regex
from foretrace.trace.intervals import Bools, Ints, numbered
from foretrace.trace.module_calls import ENGINE, STEP, ModuleCalls, class_of, in_closure
from foretrace.trace.recording import Recording, op_call
from foretrace.work import families
from foretrace.work.costs import OpCall, cost
from foretrace.work.kernel import KernelId

MATMULS = frozenset({"gemm", "gemv"})
_NODE = regex(rf"{ENGINE}|Backward\d*$")


class GpuWork(Struct, frozen=True, dict=True):
    """One distinct kind of launch: a kernel, memcpy or memset, and what launched it.

    `path` are the ops and regions above the launch, outermost first. `call` has the arguments of
    the op, `module` the class of the innermost nn.Module; None and "" where not recorded.
    """

    id: KernelId
    role: str
    path: tuple[str, ...]
    call: OpCall | None
    module: str

    @cached_property
    def ops(self) -> frozenset[str]:
        """Names in the path as plain words: `aten::_fused_adamw_` is `fused_adamw`.

        Without an op in the path (a graph's kernels have none), the op that the name states.
        """
        stated = str(self.id.get("op") or "").partition(" ")[0]
        names = self.path if any("::" in name for name in self.path) else (*self.path, stated)
        return frozenset(plain(name) for name in names if not name.startswith("triton_"))

    @cached_property
    def origins(self) -> frozenset[str]:
        """The ops that Inductor lists in the kernel's name: where its code comes from."""
        listed = self.id.get("ops") if self.id.family.startswith("inductor") else None
        return frozenset(listed or ())

    @cached_property
    def reduces(self) -> bool:
        """An Inductor kernel with a reduction in it."""
        return self.id.get("category") in ("reduction", "persistent_reduction")

    @cached_property
    def words(self) -> str:
        """What a hand-written kernel calls itself; Inductor's and ATen's names say other things."""
        if self.id.family.startswith(("inductor", "aten_")):
            return ""
        return f"{self.id.short} {self.id.name[:200]}".lower()

    @cached_property
    def backward(self) -> bool:
        """Launched by a node of autograd's backward pass."""
        nodes = [name for name in self.path if _NODE.search(name)]
        return bool(nodes) and "Checkpoint" not in nodes[-1]


class Pattern(Struct, frozen=True):
    """A sequence of kernels on one stream, as a regular expression over words.

    The words are ops; `gemm` is a matmul, `bmm` a batched one, `cast` a copy that changes
    the type. With `same_size`, the first and the last kernel work on equally many elements.
    With `one_size`, all tensors of the last op have one size. With `gate`, matmuls made both its
    operands. Matmuls in a match stay matmuls unless `matmuls` is set.
    """

    text: str
    same_size: bool = False
    one_size: bool = False
    gate: bool = False
    matmuls: bool = False

    def is_sound(self) -> bool:
        """Whether it compiles; a letter will stand for each word. A test asks ours."""
        try:
            return bool(re.compile(_WORD.sub("w", self.text).replace(" ", "")))
        except re.error:
            return False


class WorkGroup(Struct, frozen=True):
    """Names some GPU work. Groups are tried in `order`, low first.

    `name_of` returns the name, or "" for work that is not the group's. `patterns` find kernels that
    only their neighbours explain. A `weak` group says what a kernel does, not what for: a pattern
    may take its kernels. The backward pass of an op has the op's group where `with_backward`.
    """

    name: str
    order: int
    name_of: Callable[[GpuWork], str]
    patterns: tuple[Pattern, ...] = ()
    weak: bool = False
    with_backward: bool = True


def told(
    name: str,
    order: int,
    test: Callable[[GpuWork], object],
    patterns: tuple[Pattern, ...] = (),
    **more: bool,
) -> WorkGroup:
    """A group of one name: that of all work that passes a test."""
    return WorkGroup(name, order, lambda work: name if test(work) else "", patterns, **more)


def plain(name: str) -> str:
    """`aten::_softmax` -> `softmax`."""
    return name.rpartition("::")[2].strip("_")


def says(pattern: str, *texts: str) -> bool:
    """Whether one of the texts has the pattern, which is compiled at first use."""
    return any(re.search(pattern, text) for text in texts)


def words(text: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(text.split())


def gated(name: str, activation: str, kernels: str) -> WorkGroup:
    """An activation of one matmul's result times another's; `kernels` matches names of fused ones.

    A generated kernel of both may multiply by a constant: what stands before it decides. Its
    backward pass computes the activation again only where the other factor has a gradient.
    """

    def test(work: GpuWork) -> object:
        if work.origins:
            return work.backward and work.origins >= {activation, "mul"} and not work.reduces
        return says(kernels, work.words, *work.ops) and work.role not in MATMULS

    apart = Pattern(f"{activation} gemm* mul", same_size=True, one_size=True, gate=True)
    together = Pattern(f"{activation}_mul", gate=True)
    return told(name, 52, test, (apart, together))


# Ops whose sizes say what they are for; the arguments of the others do not matter here.
SIZED = frozenset({"aten::cat", "aten::copy_", "aten::index_copy_", "aten::index_put_"})
_FIRST = 0x100  # characters below are regular expression syntax
_OTHER = "\x01"  # any word that no pattern has
_WORD = regex(r"\w+")
_LARGEST = 1 << 62  # sizes beyond are no tensor's, and no number of NumPy's
# Of the ops that Inductor's kernels come from, those that a pattern needs; the first counts.
_ORIGINS = {
    "nll_loss_forward": "nll_loss",
    "_log_softmax": "log_softmax",
    "_softmax": "softmax",
}
_GATED = {"gelu": "gelu_mul", "silu": "silu_mul"}
_MOVES = words("copy to contiguous clone reshape flatten type float half bfloat16 type_as")


class Distinct:
    """`kinds` has one entry per kind; `kind` is the place in it of every row of `gpu`."""

    def __init__(self, trace: Recording, modules: ModuleCalls) -> None:
        self.trace, self.modules, gpu, origins = trace, modules, trace.gpu, trace.origins
        host, op = origins.host, origins.op
        above = (host.is_op | host.is_region) & host.lasting
        self.paths = host.paths(above)
        # What a closure runs is not below the step of the optimizer that calls it
        is_step = host.named(lambda name: name.startswith(STEP))
        over = self.paths.above
        inner = np.flatnonzero((over >= 0) & is_step[over])
        inner = inner[in_closure(self.trace, inner)]
        over[inner] = over[over[inner]]
        self.event: Ints = host.nearest(origins.launch, above)
        lost = (self.event < 0) & (op >= 0)  # linked to an op, not to a launch
        self.event[lost] = op[lost]
        sized = host.named(SIZED.__contains__)[np.maximum(op, 0)] & (op >= 0)
        self.signature: Ints = np.where(sized, origins.arguments.numbers(op), -1)
        classes, module = self._classes()
        columns = (
            host.name[gpu.id],
            self.paths.numbers(self.event),
            self.signature,
            module,
        )
        _, first, self.kind = np.unique(numbered(*columns), return_index=True, return_inverse=True)
        self.kinds = [self._work(row, classes[module[row]]) for row in first.tolist()]

    def _classes(self) -> tuple[list[str], Ints]:
        """Classes of modules, "" last, and the place of each row's: -1 without a module."""
        host, own = self.trace.origins.host, self.modules.own
        name = np.where(own >= 0, host.name[np.maximum(own, 0)], -1)
        numbers, place = coded(name)
        written = [class_of(host.names[number]) if number >= 0 else "" for number in numbers]
        classes = sorted({*written, ""}, reverse=True)
        return classes, np.array([classes.index(each) for each in written], np.int64)[place]

    def _work(self, row: int, module: str) -> GpuWork:
        trace, origins = self.trace, self.trace.origins
        host = origins.host
        event, number = int(self.event[row]), int(self.signature[row])
        path = self.paths.names(event, host.names)
        op = int(origins.op[row])
        name = host.names[host.name[trace.gpu.id[row]]]
        call = None
        if number >= 0:
            call = origins.arguments.signatures[number].call(host.names[host.name[op]])
        decoded = families.decode(name)
        role = families.role_for(name, host.names[host.name[op]] if op >= 0 else None)
        return GpuWork(decoded, role, path, call, module)


class Sequence:
    """The chosen GPU rows by stream, in the order of their launches, as words."""

    def __init__(
        self, trace: Recording, distinct: Distinct, chosen: Bools, patterns: Iterable[Pattern]
    ) -> None:
        gpu, self.trace, self.origins = trace.gpu, trace, trace.origins
        order = gpu.launch_order[chosen[gpu.launch_order]]
        self.row: Ints = order[np.argsort(gpu.lane[order], kind="stable")]
        used = sorted({each for pattern in patterns for each in _WORD.findall(pattern.text)})
        self.letter = {each: chr(_FIRST + at) for at, each in enumerate(used)}
        letters = np.array(
            [ord(self.letter.get(word(work), _OTHER)) for work in distinct.kinds], np.uint32
        )
        self.kind = kind = distinct.kind[self.row]
        self._known: dict[bytes, bool] = {}
        text = letters[kind]
        self.is_matmul: Bools = np.array([each.role in MATMULS for each in distinct.kinds])[kind]
        self.is_linear: Bools = np.array([_in_linear(each) for each in distinct.kinds])[kind]
        step = trace.spans.step_of_work()[self.row]  # no pattern joins two of them
        edges = np.flatnonzero((np.diff(gpu.lane[self.row]) != 0) | (np.diff(step) != 0)) + 1
        self.streams = [
            (int(part[0]), text[part].tobytes().decode("utf-32-le"))
            for part in np.split(np.arange(len(self.row)), edges)
            if len(part)
        ]

    @cached_property
    def elements(self) -> Ints:
        """Elements of the largest tensor of each kernel's op; -1 where not recorded."""
        sizes = [
            min(max((math.prod(size) for size in each.tensors), default=-1), _LARGEST)
            for each in self.origins.arguments.signatures
        ]
        return np.array([*sizes, -1], np.int64)[self.signature]

    @cached_property
    def one_size(self) -> Bools:
        """Whether each op has several tensors, all of one size; True where not recorded."""
        sizes = [each.tensors for each in self.origins.arguments.signatures]
        one = [len(each) > 1 and all(size == each[0] for size in each) for each in sizes]
        return np.array([*one, True], bool)[self.signature]

    @cached_property
    def signature(self) -> Ints:
        """The number of the arguments of each kernel's op."""
        return self.origins.arguments.numbers(self.origins.op[self.row])

    def matches(self, pattern: Pattern) -> Iterator[tuple[int, int]]:
        """(first, end) in the order of `row` of every match."""
        written = _WORD.sub(lambda found: self.letter[found[0]], pattern.text)
        found = re.compile(written.replace(" ", ""))
        for base, text in self.streams:
            for match in found.finditer(text):
                first, end = base + match.start(), base + match.end()
                same = not pattern.same_size or self.elements[first] == self.elements[end - 1]
                one = not pattern.one_size or self.one_size[end - 1]
                if same and one and (not pattern.gate or self._gated(base, first, end)):
                    yield first, end

    def _gated(self, base: int, first: int, end: int) -> bool:
        """Whether the matmuls just before and inside a match made both factors of its last op.

        One matmul may make both. Without recorded sizes there must be two.
        """
        start = first
        while start > base and self.is_linear[start - 1]:
            start -= 1
        # steps repeat themselves: what the same kinds of work with the same arguments make is known
        key = self.kind[start:end].tobytes() + self.signature[start:end].tobytes()
        if key not in self._known:
            self._known[key] = self._makes_factors(start, end)
        return self._known[key]

    def _makes_factors(self, start: int, end: int) -> bool:
        rows = self.row[start:end][self.is_matmul[start:end]]
        factors = op_call(self.trace, int(self.origins.op[self.row[end - 1]]))
        if factors is None:
            return len(rows) > 1
        size = factors.every_tensor()[-1].bytes if factors.every_tensor() else None
        calls = [op_call(self.trace, op) for op in {*self.origins.op[rows].tolist()}]
        prices = [cost(call) for call in calls if call]
        made = [price.bytes_written for price in prices if price]
        return size is not None and made.count(size) + 2 * made.count(2 * size) > 1


def is_matmul(work: GpuWork) -> bool:
    """A matmul, or the sum of its split-K parts."""
    return work.role in MATMULS or work.id.get("op") == "splitk_reduce"


def _in_linear(work: GpuWork) -> bool:
    """A matmul, or what its op launches beside it, such as a bias."""
    return not work.backward and (is_matmul(work) or bool(work.ops & {"linear", "addmm"}))


def word(work: GpuWork) -> str:
    """The op as a plain word; "" in the backward pass, which follows its forward ops."""
    if work.backward:
        return ""
    if is_matmul(work):
        return "bmm" if work.ops & {"bmm", "baddbmm"} else "gemm"
    if work.origins:
        known = _ORIGINS if work.reduces else _GATED if "mul" in work.origins else {}
        return next((name for op, name in known.items() if op in work.origins), "")
    called = ""
    for name in reversed(work.path):
        if not name.startswith("aten::"):
            break
        called = name
    op = plain(called or str(work.id.get("op") or "").split(" ")[0])
    if op in _MOVES:
        return "cast" if changes_type(work) else "copy"
    return op


def changes_type(work: GpuWork) -> bool:
    """A copy from one element type to another."""
    target, source = (work.call.tensor(0), work.call.tensor(1)) if work.call else (None, None)
    if target and source:
        return target.type != source.type
    stated = work.id.get("src_dtype"), work.id.get("dst_dtype")
    return "cast)" in work.id.short or (all(stated) and stated[0] != stated[1])


_ATTENTION = r"scaled_dot_product|(flash|efficient|cudnn|flex|paged|unified|mla)_attention|fmha"
_ATTENTION_SCALE = "(mul|div|add|masked_fill|where|cast|copy)"
_KV_CACHE = r"reshape_and_cache|kv_?cache|store_cache|set_kv_buffer|append_kv"


def _is_kv_cache(work: GpuWork) -> object:
    """Keys and values written to their cache: a copy to an index, a kernel of a server, or a cat.

    The cat joins [batch, heads, tokens, head size] along the tokens.
    """
    if work.role == "attention":
        return False  # it reads the cache
    if says(_KV_CACHE, work.words, *work.ops):
        return True
    return work.call is not None and (_kv_cache_joins(work.call) or _kv_cache_writes(work.call))


def _kv_cache_joins(call: OpCall) -> bool:
    """Two tensors of four dimensions that differ in the third alone; a new cache is empty."""
    parts = call.tensors(0) if call.name == "aten::cat" else None
    if parts is None or len(parts) != 2 or call.integer(1) not in (-2, 2):
        return False
    old, new = (part.dims for part in parts)
    return len(new) == 4 and (old == (0,) or _kv_cache_same_but_tokens(old, new))


def _kv_cache_writes(call: OpCall) -> bool:
    """Fewer tokens into a tensor of four dimensions, at indices."""
    if call.name != "aten::index_copy_":
        return False
    cache, new = call.tensor(0), call.tensor(3)
    return cache is not None and new is not None and _kv_cache_same_but_tokens(cache.dims, new.dims)


def _kv_cache_same_but_tokens(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return len(one) == len(two) == 4 and (*one[:2], one[3]) == (*two[:2], two[3])


def _is_kv_repeat(work: GpuWork) -> bool:
    """Keys and values copied once per query head: attention has no grouped queries.

    The copy reads five dimensions [batch, key heads, repeats, tokens, head size]. The third has
    stride 0: it was expanded.
    """
    call = work.call
    source = call.tensor(1) if call and call.name == "aten::copy_" else None
    if source is None or source.strides is None or len(source.dims) != 5:
        return False
    return source.strides[2] == 0 and source.dims[2] > 1


def _is_rope(work: GpuWork) -> object:
    """Tables of cos and sin, and the rotated pairs (rotate_half, two multiplications, a sum)."""
    if work.origins:
        turned = {"cat", "mul"} <= work.origins and work.origins & {"cos", "sin"}
        return (turned or work.origins >= words("add cat mul neg")) and not work.reduces
    if says(r"Rotary|RoPE", work.module):
        return work.role not in MATMULS
    return says(r"rope|rotary", work.words, *work.ops)


def _is_mask(work: GpuWork) -> object:
    """Positions and masks: counting up, comparing, and the mask that comes of it."""
    counts = work.origins & words("arange iota tril triu")
    compares = work.origins & words("le lt ge gt tril triu")
    return work.ops & {"tril", "triu"} or (counts and compares)


_MASK_NEXT = "arange|add|sub|le|lt|ge|gt|ne|eq|bitwise_and|logical_and|where"
_EMBEDDING_OPS = words("embedding embedding_backward embedding_dense_backward embedding_bag")


def _is_embedding(work: GpuWork) -> object:
    """The lookup of embeddings, and their gradient."""
    if work.origins:
        return work.origins & _EMBEDDING_OPS and not work.reduces
    return (
        work.ops & _EMBEDDING_OPS
        or says(r"(?<!rotary_)(?<!rotary)embedding", work.words)
        or says(r"SplitLookupFunction|split_embedding", *work.path)  # FBGEMM
    )


_RMS_NORM_OPS = words("rms_norm fused_rms_norm fused_rms_norm_backward fused_add_rms_norm")
_RMS_NORM_FUSED = words("_fused_rms_norm _fused_rms_norm_backward rms_norm fused_add_rms_norm")


def _is_rms_norm(work: GpuWork) -> object:
    """RMSNorm: fused, compiled, or by hand.

    By hand it is x.float(), pow, mean, add eps, rsqrt, mul, a cast back and the weight, in the
    order of Llama, T5 or Gemma (which adds 1 to the weight).
    """
    if work.origins:
        return work.origins & _RMS_NORM_FUSED or (work.reduces and _rms_norm_compiled(work.origins))
    if says(r"RMSNorm|RmsNorm|T5LayerNorm", work.module) and work.role not in MATMULS:
        return True
    return work.ops & _RMS_NORM_OPS or says(r"rms_?norm|add_rms", work.words)


def _rms_norm_compiled(origins: frozenset[str]) -> bool:
    """A norm that subtracts the mean is another one."""
    backward = words("div expand mul pow sum")  # the gradient of mean expands and divides
    squares = origins >= words("mean pow rsqrt") or origins >= backward
    return squares and not origins & words("sub var var_mean std")


_LAYER_NORM_OPS = words("layer_norm native_layer_norm native_layer_norm_backward")


def _is_layer_norm(work: GpuWork) -> object:
    """LayerNorm: fused, compiled, or by hand."""
    if work.origins:
        return any("layer_norm" in op for op in work.origins)
    in_module = "LayerNorm" in work.module and work.role not in MATMULS
    return in_module or work.ops & _LAYER_NORM_OPS or says(r"layer_?norm|ln_(fwd|bwd)", work.words)


_LAYER_NORM_BY_HAND = "mean sub cast? (pow|square) mean add (rsqrt mul|sqrt div) (mul add|mul)?"
_OTHER_NORMS = {"batch": "BatchNorm", "group": "GroupNorm", "instance": "InstanceNorm"}


def _other_norms_name(work: GpuWork) -> str:
    """Batch, group and instance norm, and normalizations whose kind is not in the trace."""
    texts = (*work.ops, *work.origins, work.words, work.module.lower())
    kinds = [name for kind, name in _OTHER_NORMS.items() if says(f"{kind}_?norm", *texts)]
    if len(kinds) == 1 and work.role not in MATMULS:
        return kinds[0]
    return "normalization" if work.role == "normalization" else ""


_ACTIVATION_NAMES = {
    "gelu": "GELU",
    "relu": "ReLU",
    "threshold": "ReLU",
    "silu": "SiLU",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "leaky_relu": "LeakyReLU",
    "elu": "ELU",
    "hardswish": "Hardswish",
    "mish": "Mish",
    "softplus": "softplus",
}


def _activation_name(work: GpuWork) -> str:
    """By op, by its backward op, or by the only such op that an Inductor kernel comes from."""
    forward = (op.removesuffix("_backward") for op in (*work.ops, *work.origins))
    known = {_ACTIVATION_NAMES[op] for op in forward if op in _ACTIVATION_NAMES}
    return known.pop() if work.role == "pointwise" and len(known) == 1 else ""


# GPT-2's GELU by hand: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
_ACTIVATION_BY_HAND = Pattern("mul pow mul add mul tanh add mul", same_size=True)
_RESIDUAL_NORM = "cast? (pow|square) mean|mean sub|layer_norm|native_layer_norm|rms_norm"
_DROPOUT_OPS = words("dropout native_dropout native_dropout_backward fused_dropout bernoulli")
_ROUTING = r"moe|routing|router|unpermute|topk_(softmax|gating)|expert|matmul_ogs"


def _experts_name(work: GpuWork) -> str:
    """Matmuls of the experts, and the routing of tokens to them and back."""
    if not says(_ROUTING, work.words) and not any("moe" in op for op in work.ops):
        return ""
    return "MoE GEMM" if work.role in MATMULS else "MoE routing"


_LOSS_OPS = words("""
    cross_entropy_loss nll_loss nll_loss_forward nll_loss_backward nll_loss2d_forward
    nll_loss2d_backward mse_loss mse_loss_backward l1_loss smooth_l1_loss huber_loss kl_div
    binary_cross_entropy binary_cross_entropy_with_logits
""")


def _is_loss(work: GpuWork) -> object:
    """The loss: cross entropy (log_softmax and nll_loss), mean squared error and others.

    The cast of the logits to float32 in front of a cross entropy is part of it.
    """
    # Inductor lists the loss among the origins of the first kernel of the backward pass too
    other = work.role == "normalization" or "embedding_dense_backward" in work.origins
    return (
        work.ops & _LOSS_OPS
        or (work.origins & _LOSS_OPS and not other)
        or says(r"cross_?entropy|nll_?loss|mse_?loss|jsd_|kldiv", work.words)
    )


_COLLECTIVES = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "AllToAll": "all-to-all",
    "Broadcast": "broadcast",
    "SendRecv": "send, receive",
}


def _collectives_name(work: GpuWork) -> str:
    """By the op: NCCL runs several collectives in a kernel that has the name of one (an all-to-all,
    and in old versions an all-reduce, in SendRecv). Else by the kernel's name.
    """
    if work.role != "comms":
        return ""
    ops = [op.replace("_", "") for op in work.ops]
    by_op = {name for op in ops for word, name in _COLLECTIVES.items() if word.lower() in op}
    by_kernel = _COLLECTIVES.get(str(work.id.get("coll")), "collectives")
    return by_op.pop() if len(by_op) == 1 else by_kernel


def _is_host_copy(work: GpuWork) -> bool:
    leaving = words("HtoD DtoH PtoP HtoH")
    return work.id.get("op") == "memcpy" and work.id.get("kind") in leaving


def _convolution_name(work: GpuWork) -> str:
    """Convolutions, and what their libraries launch around them to change the layout."""
    if work.role != "conv" and not says(r"convolution|conv[123]d|conv_depthwise", *work.ops):
        return ""
    if work.path and plain(work.path[-1]) in ("add", "sum"):
        return ""  # the bias and its gradient
    return "convolution backward" if work.backward else "convolution"


def _is_choosing(work: GpuWork) -> object:
    """The choice of the next token or of the best entries: argmax, top-k, sort, sampling."""
    if work.origins:
        return work.origins & words("argmax argmin topk sort multinomial")
    ops = words("argmax argmin topk sort argsort multinomial exponential searchsorted")
    chosen = work.ops & ops or work.role == "sort"
    return chosen or says(r"sampling|top_?k|top_?p|argmax", work.words)


def _is_fills(work: GpuWork) -> object:
    """Memory set to one value."""
    stated, fills = plain(str(work.id.get("op") or "").split(" ")[0]), ("fill", "zero")
    return stated in ("memset", *fills) or (work.path and plain(work.path[-1]) in fills)


def _is_copies(work: GpuWork) -> object:
    """Copies within the GPU: another layout, a joined tensor, a memcpy."""
    copying = words("clone cat stack constant_pad_nd permute expand transpose unsqueeze view")
    only = work.origins and work.origins <= copying and work.role == "pointwise"
    return work.role == "copy" or only


def _of_role(name: str, order: int, *roles: str) -> WorkGroup:
    """What no other group explains, by what the kernels do."""
    return told(name, order, lambda work: work.role in roles, weak=True, with_backward=False)


def _is_optimizer(work: GpuWork) -> object:
    """The optimizer's step: fused, foreach or one parameter at a time.

    `torch.optim` wraps it in a region `Optimizer.step#AdamW.step`. A foreach op outside of one is
    something else, such as the clipping of gradients.
    """
    stepping = any(name.startswith(STEP) for name in work.path)
    fused = r"fused_?(adam|sgd|adagrad|lamb|lion)|adam(w)?_kernel|multi_tensor_(adam|sgd)"
    return (
        stepping
        or work.ops & words("fused_adam fused_adamw fused_sgd fused_adagrad")
        or says(fused, work.words)
        or work.id.short.startswith("fused Ada")
    )


def _gradients_name(work: GpuWork) -> str:
    """Gradients added up: into a parameter's `.grad`, or where a tensor was used more than once.

    The engine itself adds the gradients of a tensor's uses, outside of any node.
    `AccumulateGrad` adds to the gradient that a parameter has from before.
    """
    if any(name.endswith("AccumulateGrad") for name in work.path):
        return "gradient accumulation"
    sums = len(work.path) > 1 and work.path[-2].startswith(ENGINE)
    return "gradient sums" if sums and work.path[-1] in ("aten::add", "aten::add_") else ""


def _gemm_backward_name(work: GpuWork) -> str:
    """Matmuls of the backward pass, and the gradient of their bias."""
    if not work.backward:
        return ""
    if work.role in MATMULS:
        return "GEMM backward"
    layer = r"(Addmm|Linear|Convolution)Backward\d*$|convolution_backward"
    summed = work.path[-1] == "aten::sum" and says(layer, *work.path)
    return "bias gradient" if summed else ""


GROUPS = (
    told("KV cache", 28, _is_kv_cache),
    # Fused kernels, and what `scaled_dot_product_attention` launches. Attention by hand is a
    # matmul, scale and mask, a softmax, dropout, a matmul.
    told(
        "attention",
        30,
        lambda work: work.role == "attention" or says(_ATTENTION, *work.ops),
        (
            Pattern(
                f"bmm {_ATTENTION_SCALE}* softmax (cast|dropout|native_dropout|copy)* bmm",
                matmuls=True,
            ),
        ),
    ),
    told(
        "loss",
        35,
        _is_loss,
        (
            Pattern("cast (pad|copy)* (cross_entropy_loss+|log_softmax nll_loss)"),
            Pattern("log_softmax nll_loss"),
        ),
    ),
    told("embedding", 40, _is_embedding),
    told(
        "RMSNorm",
        45,
        _is_rms_norm,
        (
            Pattern(
                "(?<!sub) (?<!sub cast) cast? (pow|square) mean add (rsqrt mul|sqrt div)"
                "(cast? add mul cast?|cast mul|mul)?"
            ),
        ),
    ),
    told("LayerNorm", 46, _is_layer_norm, (Pattern(_LAYER_NORM_BY_HAND),)),
    WorkGroup("normalization", 47, _other_norms_name),
    told(
        "RoPE",
        50,
        _is_rope,
        (
            Pattern("mul neg cat mul add", same_size=True),
            Pattern("(cast cast?)? (gemm|bmm) cat cos mul? sin mul? (cast cast)?"),
            Pattern("(cast cast?)? mul cat cos mul? sin mul? (cast cast)?"),
        ),
    ),
    # SwiGLU: silu of one half times the other, in one kernel or two.
    gated("SwiGLU", "silu", r"silu_?(and_?)?mul|swiglu|act_and_mul.*silu"),
    # GeGLU: gelu of one half times the other, in one kernel or two.
    gated("GeGLU", "gelu", r"gelu_?(and_?)?mul|geglu|act_and_mul.*gelu"),
    told("repeat_kv", 55, _is_kv_repeat),
    # Dropout and its mask.
    told(
        "dropout",
        56,
        lambda work: _DROPOUT_OPS & (work.ops | work.origins) or "dropout" in work.words,
    ),
    WorkGroup("MoE routing", 61, _experts_name),
    # A softmax that is neither attention nor a loss.
    told("softmax", 70, lambda work: work.role == "softmax", weak=True),
    told(
        "positions, mask",
        72,
        _is_mask,
        (Pattern(f"arange ({_MASK_NEXT})*"),),
    ),
    # The sum of a layer's input and output: after the last matmul (or its dropout) and before a
    # norm; in a ResNet between a batch norm and a ReLU. Both operands have one size.
    WorkGroup(
        "residual add",
        73,
        lambda work: "",
        (
            Pattern(f"(?<=gemm|dropout|native_dropout) add (?={_RESIDUAL_NORM})", one_size=True),
            Pattern("(?<=batch_norm) add (?=relu)", one_size=True),
        ),
        with_backward=False,
    ),
    # Activations that stand alone, by name.
    WorkGroup("GELU", 75, _activation_name, (_ACTIVATION_BY_HAND,), weak=True),
    # Communication between GPUs, by the collective that the program called.
    WorkGroup("collectives", 10, _collectives_name, with_backward=False),
    # Memcpys between the host and the GPU, and between GPUs, by direction.
    WorkGroup(
        "copies to and from the host",
        12,
        lambda work: f"copy {work.id.get('kind')}" if _is_host_copy(work) else "",
        with_backward=False,
    ),
    WorkGroup("convolution", 57, _convolution_name, with_backward=False),
    # Pooling over windows.
    told(
        "pooling",
        58,
        lambda work: says(r"(max|avg|average)_?pool", *work.ops, *work.origins, work.words),
    ),
    # Quantization to 8 or 4 bits and back, by a kernel of its own.
    told(
        "quantization",
        60,
        lambda work: (
            work.role not in MATMULS and says(r"(?i)quant", work.words, *work.ops, *work.origins)
        ),
    ),
    told("argmax, top-k, sort", 61, _is_choosing),
    # The sums of the parts of split-K matmuls.
    told(
        "split-K sums",
        62,
        lambda work: work.id.get("op") == "splitk_reduce",
        with_backward=False,
    ),
    # Matmuls.
    told("GEMM", 64, lambda work: work.role in MATMULS, with_backward=False),
    # A bias added by a kernel of its own, inside the op of a matmul or a convolution.
    told(
        "bias",
        65,
        lambda work: (
            work.role == "pointwise"
            and says(r"^(linear|addmm|baddbmm|conv\dd|convolution)$", *work.ops)
        ),
        with_backward=False,
    ),
    # Copies that only change the element type.
    told(
        "casts",
        80,
        lambda work: work.role == "copy" and changes_type(work),
        weak=True,
        with_backward=False,
    ),
    told("fills", 81, _is_fills, weak=True, with_backward=False),
    told("copies", 82, _is_copies, weak=True, with_backward=False),
    # Sums, means and other reductions that no other group explains.
    _of_role("reductions", 86, "reduction"),
    # Running sums and products: cumsum, and the prefix sums of other ops.
    _of_role("scans", 87, "scan"),
    # Reads and writes at indices.
    _of_role("gather, scatter", 88, "scatter_gather"),
    # Random numbers.
    _of_role("random numbers", 90, "random"),
    # Pointwise kernels that no other group explains; foreach kernels outside the optimizer.
    _of_role("pointwise", 95, "pointwise", "optimizer"),
    told("optimizer", 20, _is_optimizer, with_backward=False),
    # Gradients set to zero between steps; `set_to_none=True` launches nothing.
    told(
        "zero_grad",
        21,
        lambda work: any(name.startswith("Optimizer.zero_grad#") for name in work.path),
        with_backward=False,
    ),
    # DistributedDataParallel: gradients divided, and copied to and from the buckets it reduces.
    told(
        "DDP buckets",
        21,
        lambda work: says(
            r"torch\.distributed\.ddp\.reducer|torch::distributed::reducer", *work.path
        ),
        with_backward=False,
    ),
    WorkGroup("gradient sums", 22, _gradients_name, with_backward=False),
    WorkGroup("GEMM backward", 63, _gemm_backward_name, with_backward=False),
)
