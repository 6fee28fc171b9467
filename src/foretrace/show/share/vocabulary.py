"""Fields that hold one of a few words: a text outside its vocabulary is left out of the copy."""

from __future__ import annotations

import re

from foretrace.base.private.chance import words

_COLLECTIVE = words("""
    all allgather allreduce alltoall alltoallv allv async barrier base broadcast coalesced
    coalescing end gather gloo group init into list monitored nccl oop out p2p quantized recv
    recvanysource
    reduce reducescatter scatter send single sparse start tensor to uneven v wait work
    """)
_DTYPE = re.compile(
    r"(?:torch\.|c10::)?(?:byte|char|short|int|long|half|float|double|bool|u?int\d{1,2}|b?float\d{1,2}"
    r"|float[48]_e\dm\d(?:fnuz|fnu|fn)?(?:_x2)?|qu?int\d{1,2}(?:x\d)?|bits\d{0,2}(?:x\d)?"
    r"|complex(?:half|float|double|\d{2,3}|<(?:float|double|c10::half)>)?)",
    re.IGNORECASE,
)
_TYPE = re.compile(
    r"(?:(?:unsigned |signed )?(?:char|short|int|long|long long)(?: int)?|Scalar|ScalarList"
    r"|TensorList|GenericList|Tensor|Device|Generator|None|)"
)
_SYNC = re.compile(
    r"(?:(?:Context|Stream|Event|Device|Unknown|Invalid) Sync|Stream Wait Event)", re.I
)
_BACKEND = re.compile(
    r"triton|cutlass|cuda|cpp|cute|cutedsl|ck|rocm|hip|xpu|helion|gluon|eager|aten"
)
_COUNT = re.compile(r"\d{1,4}")
_ITEM = r"(?:-?\d{1,6}(?:\.\d{0,4})?(?:e[+-]?\d{1,3})?|True|False|None|)"
_PLAIN = re.compile(rf"{_ITEM}|[\[(]{_ITEM}(?:, ?{_ITEM}){{0,15}}[\])]")
# Words of the names of cards; a model is a letter or three and a number (H100, MI300X).
_CARD = re.compile(
    r"""(?i:nvidia|amd|intel|tesla|quadro|geforce|titan|rtx|gtx|instinct|radeon|pro|graphics|arc|max
    |data|center|gpu|ada|generation|laptop|super|ti|xt|xtx|vf|mig|pcie|nvl|vgpu|device|with|ddr\d
    |blackwell|hopper|grace|server|workstation|edition|sxm\d?|oam|hbm\d?e?|\d{1,4}gb|\d{1,3}g|gaudi|hpu
    |apple|m\d|ultra|tpu|v\d{1,2}[ep]?|ascend\d{0,3}[a-z]?\d?|thor|orin|jetson|agx|rx|one|die|r|v|d)
    |[A-Z]{1,3}\d{1,4}[A-Z]{0,2}|\d{1,4}[A-Z]{1,3}|gfx[0-9a-f]{3,4}""",
    re.VERBOSE,
)
# What a bare number follows: RTX 4090, Max 1550, PG509-200.
_SERIES = re.compile(r"(?i:rtx|gtx|rx|pro|max|titan|quadro|arc|radeon|geforce|pg\d{3})")


def dtype(text: str) -> str | None:
    """A dtype as PyTorch writes one, or None."""
    return text if _DTYPE.fullmatch(text) else None


def argument_type(text: str) -> str | None:
    """The type of an op's argument, or None."""
    return text if _TYPE.fullmatch(text) else dtype(text)


def collective(text: str) -> str | None:
    """`_allgather_base` and every other name made of the words for collectives, or None."""
    parts = re.split(r"[_:-]", text.lower()) if len(text) <= 64 else [text]
    return text if {part for part in parts if part} <= _COLLECTIVE else None


def sync_kind(text: str) -> str | None:
    """What the host or a stream waited for, or None."""
    return text if _SYNC.fullmatch(text) else None


def backend(text: str) -> str | None:
    """What made a kernel, or None."""
    return text if _BACKEND.fullmatch(text) else None


def count(text: str) -> str | None:
    """A small number that the trace holds as text, or None."""
    return text if _COUNT.fullmatch(text) else None


def plain_value(text: str) -> str | None:
    """The value of an argument if it is made of short numbers and truth values, or None."""
    return text if _PLAIN.fullmatch(text) else None


def device_name(text: str) -> str:
    """The name of a card, without the words that no vendor and no model has."""
    parts = [part for part in re.split(r"[\s/().-]+", text[:256]) if part]
    before = ["", *parts]
    told = [
        part
        for series, part in zip(before, parts, strict=False)
        if (_SERIES.fullmatch(series) if part.isdigit() else _CARD.fullmatch(part))
    ]
    return text if told == parts else " ".join(told)
