"""`--fail-if`: what it accepts, what it says about what it does not, and what decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from compare.traces import made, recorded, steps
from foretrace.base.errors import UsageError
from foretrace.compare import compare
from foretrace.compare.fail_if import parse_gate
from sweep import looped


@looped(
    ("text", "met"),
    [
        ("gpu > 0.87x", True),
        ("gpu > 0.88x", False),
        ("gpu<0.88x", True),
        ("gpu >= 205661ns", True),
        ("gpu < 0.2057ms", True),
        ("cpu > 1.05x", True),
        ("wall > 1.3x", True),
        ("kernels < 1x", True),
        ("kernels == 4", True),
        ("kernels != 4", False),
        ("memcpys > 0", False),
        ("memcpys > 1x", False),
        ("launches <= 4", True),
        ("idle > 1s", False),
        ("kernels > 3.5", True),
        # exact, without the tolerance of the digits: 4 of 5 kernels are not 1x
        ("kernels != 1x", True),
        ("kernels == 1x", False),
        # the wordings of a guess
        ("gpu time > 0.87x of A", True),
        ("gpu time is under 0.2057 ms", True),
        ("kernels at most 4", True),
        ("kernels == four", True),
        ("kernels == 1x +- 25%", True),
    ],
)
def test_conditions(text: str, met: bool) -> None:
    found = compare(recorded("mlp_eager"), recorded("mlp_compiled"))
    assert parse_gate(text).check(found).met is met


def test_something_from_nothing_is_more() -> None:
    found = compare(recorded("matmul_add_4096_eager"), recorded("matmul_add_4096_compiled"))
    outcome = parse_gate("memcpys > 1x").check(found)
    assert (outcome.met, outcome.text) == (True, "memcpys is 0 in A and 1 in B (new)")


def test_the_threshold_decides_and_the_noise_is_told(tmp_path: Path) -> None:
    a, b = (
        made(tmp_path, steps([5_000, 6_000, 7_000]), "a"),
        made(tmp_path, steps([5_600, 6_600, 7_600]), "b"),
    )
    outcome = parse_gate("cpu > 1.05x").check(compare(a, b))
    assert outcome.met
    assert (
        outcome.text
        == "cpu is 6.00 us in A and 6.60 us in B (1.10x; noise 67.2%, within the noise)"
    )


@pytest.mark.parametrize(
    ("text", "says", "under"),
    [
        ("gpus > 1.05x", "expected gpu, cpu, wall, idle, kernels, memcpys, launches", "  ^^^^"),
        ("gpu as 1.05x", "`as` is not understood; did you mean `at`?", "      ^^"),
        (
            "gpu > fast",
            "expected a number with a unit (x), a number with a unit (ns",
            "        ^^^^",
        ),
        ("gpu > 1.05", "ends too early; expected x, ns, us", "             ^"),
        ("kernels > 4us", "expected x, a number", "            ^^^"),
        ("gpu > 1.05x please", "`please` is not understood; expected", "              ^^^^^^"),
        ("gpu >", "ends too early; expected a number with a unit (x)", "        ^"),
    ],
)
def test_the_wrong_word_is_shown(text: str, says: str, under: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_gate(text)
    first, line, carets = str(error.value).split("\n")
    assert first == "--fail-if cannot be parsed"
    assert line == f"  {text}"
    assert carets.startswith(f"{under} ")
    assert says in carets


def test_a_quantity_that_is_not_recorded_cannot_be_decided(tmp_path: Path) -> None:
    from corpus.builder import TraceBuilder

    host_only = made(tmp_path, TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 50))
    for quantity in ("gpu", "kernels", "launches", "memcpys"):
        with pytest.raises(UsageError, match=f"{quantity} is not recorded in both traces"):
            parse_gate(f"{quantity} > 1x").check(compare(host_only, host_only))
    assert not parse_gate("ops > 1x").check(compare(host_only, host_only)).met
    more = made(
        tmp_path, TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 9).op("aten::mm", 50, 9)
    )
    outcome = parse_gate("ops > 1x").check(compare(host_only, more))
    assert (outcome.met, outcome.text) == (True, "ops is 1 in A and 2 in B (2.00x)")
    on_gpu = made(tmp_path, steps([9_000] * 3), "gpu")
    assert parse_gate("kernels > 1x").check(compare(host_only, on_gpu)).met
