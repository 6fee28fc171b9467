"""Other ways to say it: what people write for the words of the language.

Each entry of a table says `what is written = how the language says it`. `a|b` is a choice, `[a]`
can be left out. The longest match wins, and quoted text stays as it is. A kind of prediction
declares the phrases for its own words. Phrases in which `in` does not name a place are replaced
before the scope is split off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.selectors import HEADS, LINEAR_WORDS, op_words
from foretrace.analyze.guess.tokens import Token

Words = tuple[str, ...]

_SCOPED = """
inside|during = in
in total|all = ; overall = ; on average = ; in [this|that] trace =
per|each|every|a|in|for iteration|iter|batch = per step ; for|in each|every step = per step
iterations = steps
each|every|one step|iteration launches|runs|has|uses|contains|does = per step :
step|iteration launches|runs|has|contains|does = per step :
i|we expect|think|guess|bet|predict [that] = ; we launch|have|see|get|run =
there is|are = ; there's = ; there is|are|will|should be = ; should|will be = is ; should|will =
"""
_PLAIN = """
isn't|aren't = is not ; doesn't|don't|won't|didn't = do not ; does|did|do not = not
cuda|gpu kernels = kernels ; cuda|gpu kernel = kernel ; kernel launches = launches
device|gpu ops = kernels ; kernel count = kernels ; total kernels = kernels
matmuls = matmul ; matrix multiplies|multiplications|products = gemm
matrix multiply|multiplication|product = gemm
elementwise|element-wise [ops|kernels] = pointwise
layernorm|layernorms = layer_norm ; layer norm = layer_norm
rms norm|norms = rmsnorm ; rms_norm|rmsnorms = rmsnorm
batchnorm|batchnorms = native_batch_norm ; batch norm = native_batch_norm
norms = normalization ; convolution|convolutions = conv
flashattention|flash-attention = flash attention ; flash attention|kernels = flash
cudnn attention = cudnn ; memory|mem efficient [attention] = mem_efficient
memory-efficient|mem-efficient|efficient [attention] = mem_efficient
tensor core|cores = tensor-core ; tensorcore|tensorcores|tensor-cores = tensor-core
float16 = fp16 ; float32|float = fp32 ; float64 = fp64 ; bfloat = bf16
collectives|collective|communication|allreduce|all-reduce = comms ; nccl kernels = comms
synchronization|synchronizations|synchronize|synchronizes = sync
host|device|gpu|cuda sync|syncs = sync
.item()|item() = item ; item|.item|.item() calls = item
memory copies|copy = memcpy
h2d = htod memcpy ; h2d|htod copies|copy|memcpy|memcpys|transfers|transfer = htod memcpy
memcpy htod = htod memcpy
d2h = dtoh memcpy ; d2h|dtoh copies|copy|memcpy|memcpys|transfers|transfer = dtoh memcpy
memcpy dtoh = dtoh memcpy
d2d = dtod memcpy ; d2d|dtod copies|copy|memcpy|memcpys|transfers|transfer = dtod memcpy
memcpy dtod = dtod memcpy
host to device copies|copy|transfers = htod memcpy
device to host copies|copy|transfers = dtoh memcpy
dtype|type conversions|conversion|casts|cast = casts ; conversions|casting = casts
cuda|gpu streams = streams
duration|runtime|durations|times = time
most expensive kernel = top kernel ; biggest|largest|heaviest kernel = top kernel
longest|slowest kernel = longest kernel
greater|higher|bigger|larger|longer than = more than ; lower|smaller|shorter than = less than
no|not more than = at most ; no|not less|fewer than = at least
around|approximately|roughly|approx|circa = about ; equals|equal = == ; equal to = ==
percent = % ; half of = 50% of ; a third of = 33% of
bias add|addition = add ; bias is|are fused with|into = add is fused with
compute kernels = compute ; backward pass|kernels = backward
"""
_COUNTED = (["total", "number", "of"], ["number", "of"], ["num"])  # before what is counted


def _table(texts: Iterable[str]) -> dict[Words, Words]:
    found: dict[Words, Words] = {}
    lines = (line for text in texts for line in text.strip().splitlines())
    for entry in (entry for line in lines for entry in line.split(" ; ")):
        written, _, said = entry.partition(" =")
        for words in product(*map(_choices, written.split())):
            found[tuple(filter(None, words))] = tuple(said.split())
    return found


def _choices(word: str) -> list[str]:
    """The words that can stand in one place; an empty one where it can be left out."""
    return ["", *word[1:-1].split("|")] if word.startswith("[") else word.split("|")


@cache
def _scoped() -> dict[Words, Words]:
    return _table([_SCOPED, *(kind.scoped for kind in kinds.every())])


@cache
def _plain() -> dict[Words, Words]:
    return _table([_PLAIN, *(kind.phrases for kind in kinds.every())])


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


# words of the matter (their beginning is enough) | a prediction; {0} and {1} are its kernels
_MATTERS = """
fus merge combin epilogue inline | {0} and {1} are fused | gelu mul
overlap concurren parallel simultan hidden exposed | {0} and {1} overlap | comms gemm
graph-break graph_break graphbreak break | graph breaks == 0 |
recompil guard | recompiles == 0 |
line source .py | kernels from model.py:41 == 1 |
graph capture replay | cuda graphs == 1 per step |
compil dynamo inductor | graphs == 1 |
mfu mbu utili roofline efficien peak% | mfu > 20% |
memory-bound compute-bound bound bottleneck limit starv stall feed | bound is host |
oom vram alloc reserved gib gb memory peak | peak memory < 6 GB |
idle bubble gap busy | gpu idle < 10% |
percent % share fraction portion most dominat major half | {0} time > 40% of kernel time | gemm
faster slower speedup speed-up regress improve | gpu time < 0.9x of A |
sync synchron wait block item | per step: sync == 0 |
stream | streams == 1 |
cast convert dtype conversion upcast downcast | casts == 0 per step |
tensorcore tensor-core tensor bf16 fp16 fp32 tf32 fp8 precision | {0} uses bf16 | gemm
flash cudnn backend math sdpa | attention uses flash |
causal mask head_dim head | attention is causal |
backward forward autograd grad | backward time > 50% of gpu time |
memcpy copy copies transfer h2d d2h htod dtoh pin | htod memcpy == 0 per step |
allreduce nccl collective comm rank | comms time < 20% of gpu time |
layer module block mlp | in LlamaMLP: kernels == 5 |
byte traffic bandwidth gb/s tb/s | {0} bandwidth > 2 TB/s | pointwise
flop tflop gflop | {0} rate > 500 TFLOP/s | gemm
shape size dim input take | some aten::mm takes 8192x768 and 768x3072 |
order before after first then follow | {0} before {1} | gemm gelu
same differ identical change equal | same {0} kernels as A | gemm
time take took long duration slow fast second sec us ms | {0} time < 300 us | gemm
latency throughput token tokens qps cpu host python overhead dispatch | step time < 10 ms |
launch call | launches < 500 per step |
kernel many count number few more less | kernels == 5 per step |
"""
# Ops whose names are everyday words; a sentence that has one rarely means the op.
_WORDS = """
take max min mean median sum any all fill where split select trace index copy put sort full repeat
flip t var norm diff real other random ones zero zeros empty to even
"""
_EVERYDAY = tuple(_WORDS.split())


@cache
def _matters() -> list[tuple[list[str], str, list[str]]]:
    rows = [line.split("|") for line in _MATTERS.strip().splitlines()]
    return [(words.split(), text.strip(), stand_in.split()) for words, text, stand_in in rows]


def suggestion(text: str) -> str:
    """A prediction that can be parsed, about what the text seems to be about."""
    words = re.findall(r"[\w%/.:-]+", text.lower())
    scores = [
        (sum(any(_about(word, part) for part in parts) for word in words), -place)
        for place, (parts, _, _) in enumerate(_matters())
    ]
    best, place = max(scores)
    if not best:
        return "kernels == 5 per step"
    _, pattern, kernels = _matters()[-place]
    found = [word for word in dict.fromkeys(words) if _is_kernel(word)]
    return pattern.format(*_filled(found, kernels))


def _about(word: str, part: str) -> bool:
    """Whether a word is of a matter: it begins so, or has a long part or a sign of it inside."""
    return word.startswith(part) or ((len(part) > 4 or not part.isalpha()) and part in word)


def _is_kernel(word: str) -> bool:
    head = HEADS.get(word)
    known = head.kind == "kernel" if head else word in op_words()
    return known and word not in (*LINEAR_WORDS, *_EVERYDAY) and not word.startswith("kernel")


def _filled(found: list[str], kernels: list[str]) -> list[str]:
    """The words of the text, and the example's own where there are too few."""
    rest = [word for word in kernels if word not in found]
    return [*found, *rest][: len(kernels)]
