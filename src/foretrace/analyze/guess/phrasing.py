"""Other ways to say it: what people write for the words of the language.

Each line of a table says `what is written = how the language says it`. `a|b` is a choice. The
longest match wins, quoted text stays as it is, and `scoped` runs before the scope is split off: it
holds the phrases in which `in` does not name a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

from foretrace.analyze.guess.tokens import Token

Words = tuple[str, ...]

_SCOPED = """
inside|during = in
in total = ; overall = ; in all = ; on average = ; in this|that trace = ; in trace =
per|each|every|a|in|for iteration|iter|batch = per step ; for each|every step = per step
in each|every step = per step
iterations = steps
each|every|one step|iteration launches|runs|has|uses|contains|does = per step :
step|iteration launches|runs|has|contains|does = per step :
run|runs|computed|done in = uses
most of time is spent in|on = mostly ; most of gpu|kernel time is spent in|on = mostly
most of time is in|on = mostly ; most of gpu|kernel time is in|on = mostly
most of time goes to|into = mostly ; time is mostly spent in|on = mostly ; mostly in = mostly
step|it is dominated by = mostly ; dominated by = mostly
i|we expect|think|guess|bet|predict that = ; i|we expect|think|guess|bet|predict =
we launch|have|see|get|run =
of step|iteration time = of gpu time ; step|iteration time|duration|latency = per step : cpu time
step|iteration takes = per step : cpu time is
each|every|one|a step|iteration takes = per step : cpu time is
is|are|run|runs|happen|happens in one|a|same|single kernel = are fused
is|are|run|runs in a single kernel = are fused ; is|are done by one|same kernel = are fused
nothing runs|run in = no kernel uses ; nothing is in = no kernel uses
is|are in bf16 = uses bf16 ; is|are in fp16 = uses fp16 ; is|are in fp32 = uses fp32
is|are in tf32 = uses tf32 ; is|are in fp8 = uses fp8
there is|are|will|should be = ; there is|are = ; there's = ; should|will be = is ; should|will =
"""
_PLAIN = """
isn't|aren't = is not ; doesn't|don't|won't|didn't = do not ; does|did|do not = not
cuda|gpu kernels = kernels ; cuda|gpu kernel = kernel ; kernel launches = launches
device|gpu ops = kernels
matmuls = matmul ; matrix multiplies|multiplications|products = gemm
matrix multiply|multiplication|product = gemm
elementwise|element-wise = pointwise ; elementwise|element-wise ops|kernels = pointwise
layernorm|layernorms = layer_norm ; layer norm = layer_norm
rms norm|norms = rmsnorm ; rms_norm = rmsnorm ; rmsnorms = rmsnorm
batchnorm|batchnorms = native_batch_norm ; batch norm = native_batch_norm
norms = normalization
convolution|convolutions = conv
flashattention|flash-attention = flash attention
flash attention = flash ; cudnn attention = cudnn ; flash kernels = flash
memory-efficient|mem-efficient|efficient = mem_efficient
memory|mem efficient = mem_efficient ; memory|mem efficient attention = mem_efficient
memory-efficient|mem-efficient|efficient attention = mem_efficient
tensor core|cores = tensor-core ; tensorcore|tensorcores|tensor-cores = tensor-core
float16 = fp16 ; float32|float = fp32 ; float64 = fp64 ; bfloat = bf16
collectives|collective|communication|allreduce|all-reduce = comms
nccl kernels = comms
synchronization|synchronizations|synchronize|synchronizes = sync
host|device|gpu|cuda sync|syncs = sync
.item()|item() = item ; item|.item|.item() calls = item
memory copies = memcpy ; memory copy = memcpy
h2d = htod memcpy ; d2h = dtoh memcpy ; d2d = dtod memcpy
h2d|htod copies|copy|memcpy|memcpys|transfers|transfer = htod memcpy
d2h|dtoh copies|copy|memcpy|memcpys|transfers|transfer = dtoh memcpy
d2d|dtod copies|copy|memcpy|memcpys|transfers|transfer = dtod memcpy
host to device copies|copy|transfers = htod memcpy
device to host copies|copy|transfers = dtoh memcpy
dtype|type conversions|conversion|casts|cast = casts ; conversions = casts ; casting = casts
cuda|gpu streams = streams
cuda|gpu graph|graphs = cuda-graphs ; graph|graphs launches|replays = cuda-graphs
uses|use graphs = at least 1 cuda-graphs ; is|are captured in graphs = at least 1 cuda-graphs
uses|use cuda-graphs = at least 1 cuda-graphs
is|are captured in cuda-graphs = at least 1 cuda-graphs
host|cpu bound = host-bound ; cpu-bound|launch-bound|overhead-bound = host-bound
launch|overhead bound = host-bound ; dispatch-bound = host-bound
gpu bound = gpu-bound ; compute bound = compute-bound ; math-bound = compute-bound
memory|bandwidth bound = memory-bound ; bandwidth-bound|dram-bound|hbm-bound = memory-bound
memory bandwidth bound = memory-bound ; memory-bandwidth-bound = memory-bound
communication|comms|comm|nccl bound = comms-bound ; communication-bound|comm-bound = comms-bound
copy bound = copy-bound ; sync bound = sync-bound ; synchronization-bound = sync-bound
latency bound = latency-bound ; l2 bound = l2-bound ; cache-bound = l2-bound
limited|bottlenecked by host|cpu|overhead = host-bound
limited|bottlenecked by memory|bandwidth = memory-bound
limited|bottlenecked by memory bandwidth = memory-bound
limited|bottlenecked by compute|math = compute-bound ; bottlenecked on host|cpu = host-bound
bottleneck is host|cpu|overhead|launch = bound is host
bottleneck is memory|bandwidth = bound is memory ; bottleneck is compute = bound is compute
cpu|host is bottleneck = bound is host ; bound by = bound is ; bound is overhead = bound is host
it|step|steps|iteration|program|model|workload|everything|run is|are = bound is
it|step|steps|iteration|program|model|workload|everything|run is|are not = bound is not
gpu utilization|util|usage = gpu busy ; gpu idle time = gpu idle ; gpu busy time = gpu time
gpu is idle = gpu idle ; gpu is busy = gpu busy ; idle time = gpu idle ; gpu sits idle = gpu idle
peak|max|maximum gpu|device|cuda memory = peak memory ; memory peak = peak memory
max|maximum memory = peak memory ; peak memory usage = peak memory ; memory usage = peak memory
peak allocated memory = peak memory ; vram = peak memory ; peak vram = peak memory
duration|runtime|durations|times = time ; gpu|device latency = gpu time
host time = cpu time
wall-clock|wallclock time = wall time ; wall clock time = wall time
of total time = of gpu time ; of total|time|gpu|step|iteration = of gpu time
of gpu time = of gpu time
of total gpu time = of gpu time ; of kernels = of kernel time ; of all kernels = of kernel time
of total|all kernel time = of kernel time ; of runtime = of gpu time
most expensive kernel = top kernel ; biggest|largest|heaviest kernel = top kernel
longest|slowest kernel = longest kernel
is|are at roof = has roof >= 70 ; is|are not at roof = has roof < 70
is|are near roof = has roof >= 70
kernel count = kernels ; total kernels = kernels
tensor-core is|are used = gemm uses tensor-core ; attention|sdpa backend is = attention uses
memcpy htod = htod memcpy ; memcpy dtoh = dtoh memcpy ; memcpy dtod = dtod memcpy
gpu|cuda|device memory = peak memory ; gpu is starved = bound is host
runs at = reaches ; achieves|achieve|hits|hit|reach = reaches
of roof = of peak ; of its roof|peak = of peak
takes up = takes ; take up = take ; accounts|account for = takes ; makes|make up = takes
consumes|consume|costs|cost = takes
fuses|fused with|into = is fused with ; is|are fused with|into = is fused with
is|are not fused with|into = is not fused with ; not fused with|into = is not fused with
is|are fused together = are fused ; gets|get|got fused = are fused ; fuse|fuses together = are fused
is|are not fused together = are not fused ; not fuse = are not fused
overlaps|overlap with = overlaps ; overlapped|overlapping with = overlaps
is|are overlapped with = overlaps ; is|are hidden behind|by = overlaps
not overlap|overlaps with = not overlaps ; not overlap|overlaps = not overlaps
run|runs|execute|executes concurrently|simultaneously = overlap ; uses parallel = overlap
concurrently|simultaneously with = overlaps
run|runs on = uses ; launched on = uses ; is|are using = uses ; is|are run with = uses
not use|uses = uses no
greater|higher|bigger|larger than = more than ; lower|smaller|shorter than = less than
no more than = at most ; not more than = at most ; no|not less|fewer than = at least
around|approximately|roughly|approx|circa = about ; equals|equal = == ; equal to = ==
longer than = more than ; percent = % ; half of = 50% of ; a third of = 33% of
bias add|addition = add ; bias is|are fused with|into = add is fused with
graph break|breaks = graph-breaks ; graph_break|graph_breaks|graph-break = graph-breaks
recompile|recompilation|recompilations = recompiles
compiled|dynamo|fx graph|graphs = compiled-graphs
compile|compilation|compiling time = compile-time
compiles|compile in = compile-time <= ; compiling takes = compile-time
flash attention is used = attention uses flash
cudnn attention is used = attention uses cudnn
it|this|compiled|b|version is faster than = faster than
it|this|compiled|b|version is slower than = slower than
launch|dispatch|python|cpu|host overhead dominates = bound is host
kernel launch overhead dominates = bound is host ; launch overhead is bottleneck = bound is host
data loading|loader is bottleneck = bound is host ; dataloader is bottleneck = bound is host
compute kernels = compute ; backward pass = backward ; backward kernels = backward
"""

_COUNTED = (["total", "number", "of"], ["number", "of"], ["num"])  # before what is counted


def _table(text: str) -> dict[Words, Words]:
    found: dict[Words, Words] = {}
    entries = [entry for line in text.strip().splitlines() for entry in line.split(" ; ")]
    for entry in entries:
        written, _, said = entry.partition(" =")
        for words in product(*(choice.split("|") for choice in written.split())):
            found[words] = tuple(said.split())
    return found


@cache
def _scoped() -> dict[Words, Words]:
    return _table(_SCOPED)


@cache
def _plain() -> dict[Words, Words]:
    return _table(_PLAIN)


def scoped(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens of `text` with their scope in the language's words; no article, no question."""
    left = [token for token in tokens if token.key != "the"]
    asked = len(left) > 1 and left[0].key in ("does", "do", "will")
    return _said(text, left[asked:], _scoped())


def plain(text: str, tokens: Sequence[Token]) -> list[Token]:
    """What is left without the scope, in the language's words; twice, for phrases of phrases."""
    keys = [token.key for token in tokens[:3]]
    counted = next((len(words) for words in _COUNTED if keys[: len(words)] == words), 0)
    first = _said(text, tokens[counted:], _plain())
    if len(first) > 2 and first[0].key in ("is", "are"):  # are gelu and mul fused?
        first = [*first[1:-1], first[0], first[-1]]
    return _said(text, first, _plain())


def _said(text: str, tokens: Sequence[Token], table: dict[Words, Words]) -> list[Token]:
    longest, place = max(map(len, table)), 0
    found: list[Token] = []
    while place < len(tokens):
        keys = tuple(token.key for token in tokens[place : place + longest])
        size = next((n for n in range(len(keys), 0, -1) if keys[:n] in table), 0)
        if size:
            at, end = tokens[place].at, tokens[place + size - 1].end
            found += [Token(word, at, written=text[at:end]) for word in table[keys[:size]]]
        else:
            found.append(tokens[place])
        place += max(size, 1)
    return found
