"""What holds a kernel back, the word for its bound, and the occupancy of known footprints."""

import pytest

from foretrace.work import devices
from foretrace.work.costs import Certainty, Work, position
from foretrace.work.costs.limits import Footprint, Traits, limit, occupancy
from sweep import looped

H200 = next(
    card for card in devices.every() if card.name == "NVIDIA H200"
)  # without what was measured
BF16 = "c10::BFloat16"
FULL = Footprint(blocks=132 * 16 * 8, threads=128, registers=32)


def limited(work: Work, launch: Footprint = FULL, traits: Traits | None = None) -> tuple[str, str]:
    return limit(H200, work, position(H200, work), launch, traits or Traits("pointwise"))


def moved(share: float, ns: float = 100_000, certainty: Certainty = Certainty.EXACT) -> Work:
    return Work(None, round(share * 4.8e12 * ns / 1e9), ns, BF16, certainty=certainty)


def computed(share: float, ns: float = 100_000) -> Work:
    return Work(round(share * 989.4e12 * ns / 1e9), 1_000_000, ns, BF16)


def test_at_a_roof_from_70_percent_on() -> None:
    assert limited(moved(0.88)) == ("memory", "88% of the HBM roof")
    assert limited(computed(0.75)) == ("compute", "75% of the compute roof")
    assert limited(moved(0.699)) == ("memory", "69% of HBM, cause not in the trace")


def test_bounds_and_estimates_say_so() -> None:
    assert limited(moved(0.55, certainty=Certainty.AT_MOST))[1] == "at most 55% of HBM"
    assert limited(moved(0.55, certainty=Certainty.AT_LEAST))[1] == "at least 55% of HBM"
    assert limited(moved(0.55, certainty=Certainty.ESTIMATE))[1] == "about 55% of HBM"
    assert limited(moved(0.8, certainty=Certainty.AT_LEAST))[1] == "at least 80% of the HBM roof"


def test_a_lower_bound_of_bytes_leaves_the_flop_exact() -> None:
    work = Work(40_000_000_000, 10_000_000, 100_000, BF16, certainty=Certainty.AT_LEAST)
    assert limited(work) == ("compute", "40% of compute, cause not in the trace")


@pytest.mark.parametrize(
    ("launch", "traits", "cause"),
    [
        (Footprint(132 * 16 + 200, 128, 32), Traits(), "last wave 9% full"),
        (FULL, Traits("pointwise", strided=True), "strided operand"),
        (FULL, Traits("pointwise", broadcast=True), "broadcast operand"),
        (FULL, Traits("copy", cast=True), "unvectorized cast"),
        (Footprint(132 * 2 * 40, 128, 255, 100_000), Traits(), "8 of 64 warps (registers)"),
        (Footprint(132 * 40, 128, 32, 110_000), Traits(), "8 of 64 warps (shared memory)"),
        (Footprint(132, 256, 32), Traits(), "8 of 64 warps per SM"),
        (FULL, Traits("gemm", split_k=True), "split K"),
    ],
)
def test_causes_that_the_trace_shows(launch: Footprint, traits: Traits, cause: str) -> None:
    assert limited(moved(0.3), launch, traits) == ("memory", f"30% of HBM: {cause}")


@pytest.mark.parametrize("role", ["gemm", "attention", "conv"])
def test_few_warps_are_no_cause_for_matmuls(role: str) -> None:
    launch = Footprint(132, 256, 168, 200_000)
    assert limited(moved(0.3), launch, Traits(role))[1] == "30% of HBM, cause not in the trace"


def test_a_grid_that_fits_at_once_has_no_last_wave() -> None:
    """A persistent kernel has one block per SM, and those are one full wave."""
    launch = Footprint(132, 384, 168, 213_000)
    assert limited(computed(0.5), launch, Traits("gemm"))[1].endswith("cause not in the trace")


def test_a_short_matmul_fills_and_drains_its_pipeline() -> None:
    launch, matmul = Footprint(132, 384, 168, 213_000), Traits("gemm")
    text = "60% of compute: only 16.0 us long"
    assert limited(computed(0.6, ns=16_000), launch, matmul) == ("compute", text)
    assert limited(computed(0.6, ns=40_000), launch, matmul)[1].endswith("not in the trace")
    assert limited(computed(0.6, ns=16_000), launch, Traits("attention"))[1].endswith("the trace")


def test_fewer_blocks_than_sms() -> None:
    work = moved(0.2, ns=50_000)
    assert limited(work, Footprint(24, 1024, 32)) == ("latency", "latency: 24 blocks on 132 SMs")
    assert limited(work, Footprint(1, 128, 32))[1] == "latency: 1 block on 132 SMs"
    assert limited(work, Footprint(126, 384, 168), Traits("gemm"))[0] == "memory"


def test_next_to_no_work() -> None:
    assert limited(Work(4, 16, 1168, "float")) == ("latency", "latency: only 16 B")
    assert limited(Work(4, 16, 1168, "float"), Footprint(1, 32, 16))[1] == "latency: only 16 B"
    assert limited(Work(0, 16, 18_000, "float"), Footprint(1, 32, 16))[1] == (
        "latency: 1 block on 132 SMs"
    )
    assert limited(Work(500_000_000, 1000, 2500, BF16))[1] == "latency: 505 ns of work at the roof"


def test_a_lower_bound_of_little_work_proves_nothing_about_a_longer_kernel() -> None:
    work = Work(None, 2_000_000, 6000, BF16, certainty=Certainty.AT_LEAST)
    assert limited(work) == ("unknown", "at least 6% of HBM, FLOP not known")
    short = Work(None, 2_000_000, 2900, BF16, certainty=Certainty.AT_LEAST)
    assert limited(short) == ("latency", "latency: only 2.90 us long")


def test_an_almost_empty_kernel_takes_longer_on_an_amd_card() -> None:
    card = devices.find("AMD Instinct MI300X")
    work = Work(None, 512, 5000, BF16, certainty=Certainty.AT_LEAST)
    found = limit(card, work, position(card, work), Footprint(), Traits())
    assert found == ("latency", "latency: only 5.00 us long")
    assert limited(work)[0] == "unknown"


def test_collectives_have_no_roof() -> None:
    assert limited(moved(0.1), traits=Traits("comms"))[0] == "comms"


def test_what_is_not_known() -> None:
    nothing = Work(None, None, 1000)
    assert limited(nothing) == ("unknown", "")
    assert limited(Work(None, 1000, None)) == ("unknown", "its time is not recorded")
    assert limited(Work(10**9, None, 10**5, BF16)) == (
        "unknown",
        "far from compute, bytes not known",
    )
    assert limited(Work(10**9, 1000, 10**5, "float")) == (
        "compute",
        "the peak of its units is not known",
    )
    work = moved(0.5)
    text = "the GPU's peaks are not known"
    assert limit(None, work, position(None, work), FULL, Traits()) == ("unknown", text)


@looped(
    ("registers", "shared", "threads", "arch", "expected"),
    [
        (255, 49_152, 128, "sm_80", 8 / 64),  # flash attention: 2 blocks of 4 warps
        (240, 73_728, 256, "sm_80", 8 / 64),  # cuDNN attention: 1 block of 8 warps
        (32, 0, 128, "sm_90", 1.0),
        (32, 0, 64, "sm_90", 1.0),  # 32 blocks of 2 warps
        (16, 0, 32, "sm_90", 32 / 64),  # at most 32 blocks
        (16, 0, 32, "sm_89", 24 / 48),
        (16, 0, 32, "sm_86", 16 / 48),
        (16, 0, 1024, "sm_75", 1.0),
        (40, 0, 128, "sm_90", 48 / 64),  # 51 warps fit, 48 in fours and blocks of four
        (168, 232_448 - 1024, 384, "sm_90", 12 / 64),  # one block that fills shared memory
        (32, 50_000, 128, "sm_70", 4 / 64),  # 96 KiB holds one
        (32, 32_768, 128, "sm_70", 12 / 64),
        (32, 32_768, 128, "sm_80", 16 / 64),  # 33 KiB with the reserved one: 4 in 164
        (33, 0, 96, "sm_100", 48 / 64),  # 40 registers each after rounding
    ],
)
def test_known_footprints(
    registers: int, shared: int, threads: int, arch: str, expected: float
) -> None:
    assert occupancy(registers, shared, threads, arch) == expected


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "arch"),
    [
        (32, 0, 128, "gfx942"),
        (32, 0, 0, "sm_90"),
        (255, 0, 1024, "sm_90"),
        (32, 300_000, 128, "sm_90"),
        (-1, 0, 128, "sm_90"),
    ],
)
def test_what_cannot_be_known_or_cannot_run(
    registers: int, shared: int, threads: int, arch: str
) -> None:
    assert occupancy(registers, shared, threads, arch) is None
