"""Block sizes and warps of generated kernels, where the log states one configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from foretrace.schema.compiler import GeneratedKernel

INFO = "triton_kernel_info"


def configured(kernels: Iterable[GeneratedKernel], payload: bytes) -> list[GeneratedKernel]:
    """The kernels with what the record `triton_kernel_info` says; several configurations are
    tuned when the code runs, and the record does not say which won.
    """
    try:
        stated = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        stated = None
    known = stated if isinstance(stated, dict) else {}
    return [replace(each, config=each.config | _config(known.get(each.name))) for each in kernels]


def _config(stated: Any) -> dict[str, int]:
    pairs = stated.get("only_config") if isinstance(stated, dict) else None
    found = {}
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], int):
            found[str(pair[0])] = int(pair[1])
    return found
