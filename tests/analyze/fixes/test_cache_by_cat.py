"""A cache that grows with torch.cat, and one that does not."""

from __future__ import annotations

from analyze.fixes.sketched import found_in, times_us
from opened_traces import FAULTS


def test_a_growing_cache_is_written_in_place() -> None:
    (found,) = found_in("cache_by_cat", FAULTS / "steps_drift_growing_cache.json.gz", -1)
    assert "2 torch.cat" in found.why
    assert max(times_us(found)) < 10


def test_a_steady_cache_stays() -> None:
    assert not found_in("cache_by_cat", FAULTS / "steps_steady_cache.json.gz")
