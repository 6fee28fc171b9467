"""What was measured on this machine is preferred to the datasheet, and explains what L2 does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from foretrace.work import devices
from foretrace.work.costs.limits import Footprint, Traits, Work, impossible, limit, position
from foretrace.work.devices import SCHEMA, BandwidthPoint, Device, MeasuredRoofs

MIB = 1 << 20
ROOFS = MeasuredRoofs(
    SCHEMA,
    "NVIDIA H200",
    "gpu",
    "foretrace lab roofs",
    {"measured": "2026-11-16T08:00:00+00:00"},
    bandwidth=(
        BandwidthPoint(16 * MIB, 6000.0, 5000.0, 5500.0),
        BandwidthPoint(48 * MIB, 7000.0, 7000.0, 7000.0),  # neither fits in L2 nor exceeds it
        BandwidthPoint(1024 * MIB, 4400.0, 4000.0, 4200.0),
    ),
    tflops={"bf16": 780.0},
    units_tflops={"bf16": 900.0},
)


@pytest.fixture(autouse=True)
def roofs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FORETRACE_ROOFS", str(tmp_path))
    monkeypatch.setattr("foretrace.base.errors._said", set())
    devices._loaded.cache_clear()
    yield tmp_path
    devices._loaded.cache_clear()


def _h200() -> Device:
    found = devices.find("NVIDIA H200")
    assert found is not None
    return found


def test_without_a_file_what_ships_counts_and_else_the_datasheet() -> None:
    rates = _h200().measured
    assert rates is not None
    assert (rates.bytes_per_s, rates.l2_bytes_per_s) == (4.709e12, 8.925e12)
    b200 = devices.find("NVIDIA B200")
    assert b200 is not None
    assert b200.measured is None
    assert devices.measured_stamp() == ""


def test_what_was_measured_comes_with_the_device(roofs_folder: Path) -> None:
    devices.save_roofs(ROOFS, roofs_folder / "nvidia-h200.json")
    rates = _h200().measured
    assert rates is not None
    assert rates.flops == {"bf16": 900e12}
    assert (rates.bytes_per_s, rates.l2_bytes_per_s) == (4.4e12, 6e12)
    assert rates.source == "foretrace lab roofs, 2026-11-16"
    assert _h200().bytes_per_s == 4.8e12  # what is possible at all
    assert "nvidia-h200.json" in devices.measured_stamp()


def test_a_kernel_that_beats_hbm_from_l2_is_explained(roofs_folder: Path) -> None:
    work = Work(None, 50 * 10**6, 10_000)  # 5 TB/s
    bare = msgspec.structs.replace(_h200(), measured=None)
    assert limit(bare, work, position(bare, work), Footprint(), Traits()) == (
        "l2",
        "from L2, faster than HBM",
    )
    devices.save_roofs(ROOFS, roofs_folder / "nvidia-h200.json")
    devices._loaded.cache_clear()
    place = position(_h200(), work)
    assert (place.nearest, place.gbps) == ("l2", 5000.0)
    assert place.share == pytest.approx(5 / 6)
    assert limit(_h200(), work, place, Footprint(), Traits()) == (
        "l2",
        "from L2, faster than HBM (83% of its roof)",
    )
    assert impossible(_h200(), work) == ""


def test_a_rate_between_the_two_is_one_from_l2_only_where_it_was_measured(
    roofs_folder: Path,
) -> None:
    work = Work(None, 46 * 10**6, 10_000)  # 4.6 TB/s: less than the card that was shipped
    assert position(_h200(), work).nearest == "memory"
    devices.save_roofs(ROOFS, roofs_folder / "nvidia-h200.json")
    devices._loaded.cache_clear()
    assert position(_h200(), work).nearest == "l2"
    within = position(_h200(), Work(None, 45 * 10**6, 10_000))  # 2% above what was measured
    assert (within.nearest, within.share) == ("memory", 1.0)


def test_matmuls_are_measured_against_tensor_cores(roofs_folder: Path) -> None:
    devices.save_roofs(ROOFS, roofs_folder / "nvidia-h200.json")
    place = position(_h200(), Work(8 * 10**11, 10**6, 1e6, "c10::BFloat16"))
    assert (place.nearest, place.share) == ("compute", pytest.approx(800 / 900))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "cannot be read"),
        (b"[]", "cannot be read"),
        (msgspec.json.encode(msgspec.structs.replace(ROOFS, schema=9)), "schema 9"),
    ],
)
def test_a_bad_file_costs_one_line(
    content: bytes, said: str, roofs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (roofs_folder / "nvidia-h200.json").write_bytes(content)
    rates = _h200().measured
    assert rates is not None
    assert rates.bytes_per_s == 4.709e12, "what ships counts instead"
    assert said in capsys.readouterr().err


def test_a_file_comes_back_as_it_was(roofs_folder: Path) -> None:
    place = roofs_folder / "new" / devices.file_name("NVIDIA H200")
    devices.save_roofs(ROOFS, place)
    assert devices.load(place) == ROOFS
    assert devices.load(roofs_folder / "none.json") is None
