"""The card that a trace was recorded on."""

from __future__ import annotations

import re

from foretrace.analyze.guess.kinds import Measurement, Query, prediction
from foretrace.analyze.guess.windows import Unknown

_VENDORS = {"gfx": "amd", "sm": "nvidia"}  # how the names of their architectures begin


@prediction(
    "card",
    27,
    "card is [not] {name:name}",
    expected=lambda args: f"{'not ' if 'not' in args else ''}{args['name']}",
)
def _card(query: Query) -> Measurement:
    """Which card ran the program, by a word of its name or by its vendor."""
    about, wanted = query.windows[0].evidence.trace.about, str(query.args["name"]).lower()
    arch = re.sub(r"\d.*", "", about.arch or "")
    vendor, device = _VENDORS.get(arch, ""), (about.device or "").lower()
    by_vendor = wanted in _VENDORS.values()
    if not (vendor if by_vendor else re.search(r"\d", device)):
        raise Unknown("the trace does not name its card")
    right = wanted == vendor if by_vendor else wanted in re.split(r"\W+", device)
    return Measurement(query.hit_if(right), about.device or vendor)
