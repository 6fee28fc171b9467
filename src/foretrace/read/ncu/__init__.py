"""What Nsight Compute exports: from CSV text to launches with counters."""

from __future__ import annotations

from foretrace.read.ncu.export import CounterExport, CounterLaunch, read_export

__all__ = ["CounterExport", "CounterLaunch", "read_export"]
