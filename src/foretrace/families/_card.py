"""A kernel's chip generation against the card's: an Ampere kernel on a Hopper card is a finding in
itself.
"""

from __future__ import annotations

from foretrace.families._matmul import GENERATION
from foretrace.families._reading import rx
from foretrace.schema.kernel import KernelId

# What a generation brought that kernels written for an older one cannot use.
BROUGHT = {
    75: "int8 tensor cores",
    80: "asynchronous copies, bf16 and TF32 tensor cores",
    89: "fp8 tensor cores",
    90: "warp-group MMA, TMA, thread-block clusters",
    100: "tensor memory, two-block MMA, fp4",
}


def on_card(kernel: KernelId, arch: str) -> str:
    """One sentence: was the kernel written for this card (`sm90`, `sm_90`, `gfx942`), for an older
    or a newer one?
    """
    stated = kernel.fields.get("arch")
    card = arch.replace("_", "").lower()
    if not isinstance(stated, str):
        return "the name states no chip generation"
    ours, theirs = _number(stated), _number(card)
    if ours is None or theirs is None:
        same = stated == card
        return (
            f"written for {_named(stated)}{', this card' if same else f', not for {_named(card)}'}"
        )
    if ours == theirs:
        return f"written for {_named(stated)}, this card's own generation"
    if ours > theirs:
        return f"written for {_named(stated)}, newer than {_named(card)}: it cannot have run there"
    missed = [words for number, words in BROUGHT.items() if ours < number <= theirs]
    tail = f"; it uses nothing that came later ({'; '.join(missed)})" if missed else ""
    return f"written for {_named(stated)}, older than {_named(card)}{tail}"


def _number(arch: str) -> int | None:
    found = rx(r"sm(\d{2,3})[a-z]?").fullmatch(arch)
    return int(found[1]) if found else None


def _named(arch: str) -> str:
    generation = GENERATION.get(
        rx(r"(?<=\d)[abf]$").sub("", arch) if arch.startswith("sm") else arch
    )
    return f"{arch} ({generation})" if generation else arch
