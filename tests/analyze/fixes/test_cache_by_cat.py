"""A cache that grows with torch.cat, and one that does not."""

from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest, times_us
from opened_traces import FAULTS


def test_a_growing_cache_is_written_in_place(fix: FixUnderTest) -> None:
    (found,) = fix.recorded(FAULTS / "steps_drift_growing_cache.json.gz", -1)
    assert "2 torch.cat" in found.why
    assert max(times_us(found)) < 10


def test_a_steady_cache_stays(fix: FixUnderTest) -> None:
    assert not fix.recorded(FAULTS / "steps_steady_cache.json.gz")
