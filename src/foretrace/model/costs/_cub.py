"""The kernels of CUB's sorts and scans, which many ops launch: their names tell types, and
sometimes the tile of a block.

How many items they handle is known where the op's shapes say so. A scan without that has at least
one item more than all its blocks but the last can hold.
"""

from __future__ import annotations

import re

from foretrace.model.costs._call import Cost, Launch, Tensor, part
from foretrace.model.costs._names import after
from foretrace.model.costs._types import SIZES

# A sort in one sweep takes 8 bits of the keys at a time (ONESWEEP_RADIX_BITS in
# dispatch_radix_sort.cuh).
BINS = 256
# Nominal items per thread are for values of 4 bytes; others are scaled (MemBoundScaling in
# util_arch.cuh).
NOMINAL = 4

_STEP = re.compile(r"DeviceRadixSort(\w{1,40}?)Kernel<")
_SORTED = re.compile(
    r"(?:policy_hub|DeviceRadixSortPolicy)<([\w ]{1,60}), ([^,]{1,200}), ([\w ]{1,60})>"
)
_POLICY = re.compile(r"AgentScanPolicy<(\d{1,9}), (\d{1,9}), ([\w ]{1,60}),")
_SCANNED = re.compile(r">, ([\w ]{1,60}?)(?: const)?\*, ([\w ]{1,60})\*,")
_STATE = re.compile(
    r"Device(?:Scan|Compact)InitKernel<(?:\w{1,60}::){0,6}ScanTileState<([\w ]{1,60}), true>"
)


def cub_part(kernel: Launch, items: int | None = None) -> Cost | None:
    """What a kernel of CUB moves at the least; None for any other, and where `items` is needed and
    not given.
    """
    state = _STATE.search(kernel.name)
    if state and kernel.blocks > 0:
        states = Tensor((kernel.blocks, 2), state[1])
        return part([], [states], "one tile's state per block of the scan written")
    return _sort(kernel, items) or _scan(kernel)


def _sort(kernel: Launch, items: int | None) -> Cost | None:
    named = _STEP.search(kernel.name)
    found = _SORTED.search(kernel.name, named.end()) if named else None
    if named is None or found is None:
        return None
    step, (key, value, offset) = named[1], found.groups()
    if step == "ExclusiveSum" and kernel.blocks > 0:
        counts = Tensor((kernel.blocks, BINS), offset)
        return part([counts], [counts], f"{BINS} counts of keys per block read and written")
    if items is None:
        return None
    keys, values = Tensor((items,), key), Tensor((items,), value.rpartition("::")[2])
    if step == "Histogram":
        return part([keys], None, "the keys read")
    if step == "Onesweep" and values.type in SIZES:
        return part([keys, values], [keys, values], "keys and values read and written")
    return part([keys], [keys], "the keys read and written") if step == "Onesweep" else None


def _scan(kernel: Launch) -> Cost | None:
    policy = after(kernel.name, "DeviceScanKernel<", _POLICY)
    found = _SCANNED.search(kernel.name, policy.end()) if policy else None
    size = SIZES.get(policy[3]) if policy else None
    if policy is None or found is None or size is None or kernel.blocks < 2:
        return None
    threads, nominal = int(policy[1]), int(policy[2])
    tile = threads * max(1, min(nominal * NOMINAL // size, 2 * nominal))
    items = (kernel.blocks - 1) * tile + 1
    what = f"a scan of {kernel.blocks - 1} whole tiles of {tile:,} items and one item more"
    return part([Tensor((items,), found[1])], [Tensor((items,), found[2])], what)
