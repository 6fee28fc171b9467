"""What to write instead of a prediction that cannot be parsed: one about the same matter.

The matter is found by meaning: each line of the table has words of one matter and a prediction
about it. The first kernel words of the text, if it has any, stand in that prediction.
"""

from __future__ import annotations

import re
from functools import cache

from foretrace.analyze.guess.selectors import HEADS, LINEAR_WORDS, op_words

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
