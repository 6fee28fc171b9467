"""What a fusion saves by the roofs of the GPU: traffic that L2 holds takes less time than HBM's.

What one kernel writes is still there for the next where L2 holds all that either of them moves.
"""

from __future__ import annotations

from foretrace.analyze.compare.comparison import Comparison
from foretrace.analyze.compare.fusion import Fusion
from foretrace.analyze.compare.wording import listed
from foretrace.base.units import bytes_text, time_text
from foretrace.model.costs.roofline import cache_rate, memory_rate, traffic_ns
from foretrace.model.metadata import device_of
from foretrace.schema.device import Device

SHOWN = 3  # fusions that get a sentence; the document has all
LEAST = 1_000_000  # bytes: less takes no time worth a sentence


def traffic_lines(found: Comparison) -> list[str]:
    """One sentence for each of the largest fusions, and for what was fused before."""
    device = device_of(found.a.trace.about)
    if device is None or device_of(found.b.trace.about) != device:
        return []
    rows = [(each, "avoids at most") for each in found.kernels.fusions]
    rows += [(each, "avoided at most") for each in found.kernels.undone]
    rows = [row for row in rows if (row[0].bytes_saved or 0) >= LEAST]
    rows.sort(key=lambda row: -(row[0].bytes_saved or 0))
    return [_line(device, each, word) for each, word in rows[:SHOWN]]


def _line(device: Device, fusion: Fusion, word: str) -> str:
    saved, largest = fusion.bytes_saved or 0, fusion.largest_bytes
    names = listed([(op.removeprefix("aten::"), 1) for op in fusion.replaces])
    memory = saved / memory_rate(device) * 1e9
    text = f"Fusing {names} {word} {bytes_text(saved)} of memory traffic"
    if not largest or largest > (device.cache_bytes or 0) or not cache_rate(device):
        return f"{text}, {time_text(memory)} at the HBM roof."
    cached = traffic_ns(device, saved, largest)
    fits = f"A kernel moves at most {bytes_text(largest)}, which fits in L2"
    return f"{text}. {fits}: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM."
