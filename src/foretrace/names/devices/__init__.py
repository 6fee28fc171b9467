"""What each GPU can do at most: dense peaks, bandwidth and cache, from `peaks.toml`.

Every card is one table of that file, with its datasheet. Other packages add theirs through the
entry point group `foretrace.devices`. What `foretrace roofs` measured on a card comes with it.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from foretrace.base import plugins
from foretrace.names.devices import _measured
from foretrace.schema.device import Device, MeasuredRoofs

PEAKS = Path(__file__).with_name("peaks.toml")
# A partition or a cut-down sibling carries the big card's name and one of these words, but not the
# card's peaks.
OTHER_CARD = frozenset({"mig", "laptop", "nvl", "vgpu", "d"})
# What a trace reports lies a little below the nominal size: from 0.01% (MI300X) to 1.5% (A100, 39.4
# of 40 GiB).
MEMORY_TOLERANCE = 0.05


@cache
def every() -> tuple[Device, ...]:
    """All known devices, in the order of the file."""
    import foretrace.names.devices as here

    cards = tomllib.loads(PEAKS.read_text(encoding="utf-8"))
    found = [_device(name, card) for name, card in cards.items()]
    return (*found, *plugins.declared(here, "DEVICE", Device, "foretrace.devices"))


def _device(name: str, card: dict[str, Any]) -> Device:
    l2, memory = card.get("l2_mib"), card.get("memory_gib")
    cache = card.get("cache_mib", l2)
    return Device(
        name,
        card["arch"],
        tuple(tuple(entry.split()) for entry in card["names"]),
        # through text: 989.4 * 1e12 is not the float nearest to 989.4e12
        {key: float(f"{rate}e12") for key, rate in card["tflops"].items()},
        float(f"{card['gb_per_s']}e9"),
        None if l2 is None else l2 * 2**20,
        card["sms"],
        card["source"],
        None if memory is None else memory * 2**30,
        None if cache is None else cache * 2**20,
    )


def find(
    name: str, *, arch: str | None = None, sms: int | None = None, memory_bytes: int | None = None
) -> Device | None:
    """The device that a trace means by `name`, or None if that is not certain.

    The card with most words in the name wins (`A100 80GB PCIe` over `A100 80GB`). `arch` (`sm_90`,
    `gfx942`), `sms` and `memory_bytes` must agree where they are given: a card with fewer SMs than
    its name promises is a slice of one. A trace without a name, or with one that fits several cards
    (`NVIDIA H100`), is matched by SM count and memory together, and only if one device fits.
    """
    words = frozenset(re.split(r"[^a-z0-9]+", name.lower())) - {""}
    if words & OTHER_CARD:
        return None
    candidates = _by_words(words)
    if not candidates and sms and memory_bytes:
        candidates = _by_model(words) if words else every()
    fits = [device for device in candidates if _agrees(device, arch, sms, memory_bytes)]
    return _measured.preferred(fits[0]) if len(fits) == 1 else None


def save_roofs(roofs: MeasuredRoofs, output: Path | None = None) -> Path | None:
    """Write what was measured to `output`, or where `find` looks; None without such a place."""
    place = output or _measured.place_of(roofs.device)
    if place is not None:
        _measured.save(roofs, place)
        _measured.forget()
    return place


def shown_roofs(name: str) -> MeasuredRoofs:
    """Measured roofs by the name of a device, those of this machine first, or by file."""
    return _measured.named(name)


def measured_roofs(device: Device) -> MeasuredRoofs | None:
    """What was measured on this machine, or else on such a card for the package."""
    return _measured.own(device.name) or _measured.shipped(device.name)


def measured_stamp() -> str:
    """What changes when the roofs of this machine are measured again."""
    return _measured.stamp()


def _by_words(words: frozenset[str]) -> tuple[Device, ...]:
    scores = {device.name: _score(device, words) for device in every()}
    best = max(scores.values())
    return tuple(device for device in every() if best and scores[device.name] == best)


def _score(device: Device, words: frozenset[str]) -> int:
    return max((len(entry) for entry in device.names if words.issuperset(entry)), default=0)


def _by_model(words: frozenset[str]) -> tuple[Device, ...]:
    """Devices whose model, the first word of their names, is among the words."""
    return tuple(device for device in every() if any(entry[0] in words for entry in device.names))


def _agrees(device: Device, arch: str | None, sms: int | None, memory_bytes: int | None) -> bool:
    if (arch and arch != device.arch) or (sms and sms != device.sms):
        return False
    if not memory_bytes or not device.memory_bytes:
        return True
    return abs(memory_bytes / device.memory_bytes - 1) <= MEMORY_TOLERANCE
