"""Where the traces are that were recorded rather than made up, and how much of the sweeps to run."""

from __future__ import annotations

import os
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[2] / "src" / "foretrace" / "recordings" / "h200"
PUBLIC = os.environ.get("FORETRACE_PUBLIC_TRACES", "")
FULL_SWEEP = os.environ.get("FORETRACE_SWEEP") == "full"


def examples(sample: int) -> int:
    """How many examples a property is tried on."""
    return sample * 30 if FULL_SWEEP else sample


def recorded_traces() -> list[Path]:
    return sorted(RECORDED.glob("*.json.gz"))


def public_traces() -> list[Path]:
    return sorted(Path(PUBLIC).glob("*.json.gz")) if PUBLIC else []
