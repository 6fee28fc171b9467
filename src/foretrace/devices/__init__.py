"""What each GPU can do at most: dense peaks, bandwidth and cache, one file per card, each naming
its datasheet.

A file declares `DEVICE = Device(...)`; dropping one in is all it takes. Other packages bring theirs
through the entry point group `foretrace.devices`. The rules that every file keeps (and a contract
test checks):

- Rates are the vendor's dense rates at boost clock. Sparse rates, twice as high on paper, are never
  used.
- `fp32` and `fp64` are the rates of the plain (vector) units. Matrix units that take the same types
  have keys of their own: `tf32` (AMD: xf32), `fp32_matrix` (AMD) and `fp64_matrix`. 16-bit and
  8-bit rates are those of the matrix units with 32-bit accumulation, the mode PyTorch asks for.
- A device is what a trace calls a device: an MI250X shows as two, so its file holds the figures of
  one die.
"""

from __future__ import annotations

import re
from functools import cache

from foretrace import plugins
from foretrace.schema.device import Device

# A partition or a cut-down sibling carries the big card's name and one of these words; its peaks
# are not the card's.
OTHER_CARD = frozenset({"mig", "laptop", "nvl", "vgpu", "d"})
# What a trace reports lies a little below the nominal size: seen from 0.01% (MI300X) to 1.5% (A100,
# 39.4 of 40 GiB).
MEMORY_TOLERANCE = 0.05


@cache
def every() -> tuple[Device, ...]:
    """All devices that are known, in the order of their files."""
    import foretrace.devices as here

    return tuple(plugins.declared(here, "DEVICE", Device, "foretrace.devices"))


def find(
    name: str, *, arch: str | None = None, sms: int | None = None, memory_bytes: int | None = None
) -> Device | None:
    """The device that a trace means by `name`, or None when that is not certain.

    Among the devices whose words all occur in the name, the one with most words wins
    (`A100 80GB PCIe` over `A100 80GB`). `arch` (`sm_90`, `gfx942`), `sms` and `memory_bytes` then
    have to agree where they are given: a card with fewer SMs than its name promises is a slice of
    one, and its peaks are unknown. A trace without a name, or with one that fits several cards
    (`NVIDIA H100`), is matched by SM count and memory together, and only if one device fits.
    """
    words = frozenset(re.split(r"[^a-z0-9]+", name.lower())) - {""}
    if words & OTHER_CARD:
        return None
    candidates = _by_words(words)
    if not candidates and sms and memory_bytes:
        candidates = _by_model(words) if words else every()
    fits = [device for device in candidates if _agrees(device, arch, sms, memory_bytes)]
    return fits[0] if len(fits) == 1 else None


def _by_words(words: frozenset[str]) -> tuple[Device, ...]:
    scores = {device.name: _score(device, words) for device in every()}
    best = max(scores.values())
    return tuple(device for device in every() if best and scores[device.name] == best)


def _by_model(words: frozenset[str]) -> tuple[Device, ...]:
    """Devices whose model, the first word of their names, is among the words."""
    return tuple(device for device in every() if any(entry[0] in words for entry in device.names))


def _score(device: Device, words: frozenset[str]) -> int:
    return max((len(entry) for entry in device.names if words.issuperset(entry)), default=0)


def _agrees(device: Device, arch: str | None, sms: int | None, memory_bytes: int | None) -> bool:
    if (arch and arch != device.arch) or (sms and sms != device.sms):
        return False
    if not memory_bytes or not device.memory_bytes:
        return True
    return abs(memory_bytes / device.memory_bytes - 1) <= MEMORY_TOLERANCE
