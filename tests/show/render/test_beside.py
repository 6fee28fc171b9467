"""Several traces beside each other: the places of the first, and what each launches there."""

from __future__ import annotations

import pytest

from foretrace.cli import main

SIZE = "64x128x768x3072_bf16"
EAGER, COMPILED, LIGER = (f"mlp_{way}_{SIZE}" for way in ("eager", "compiled", "liger"))
LOOK = ["look", "--no-cache", "--region", "mlp_fwd"]


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if " us" in line or " -" in line]


def test_three_traces_place_by_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LOOK, EAGER, "--beside", COMPILED, "--beside", LIGER]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"A  {EAGER}\nB  {COMPILED}\nC  {LIGER}\n")
    rows = _rows(text)
    assert [row[-3:] for row in rows if "gelu" in row or "geglu" in row] == [
        ["cudaLaunchKernel", "31.0", "us"],
        ["cuLaunchKernelEx", "44.0", "us"],
    ]
    assert rows.count(["B", "-"]) == rows.count(["C", "-"]) == 1  # at the place of mul
    gemms = [row for row in rows if "nvjet" in row]
    assert len(gemms) == 9
    assert {row[-3] for row in gemms} == {"cuLaunchKernelEx"}
    assert [row[1] for row in gemms if row[0].isdigit()] == ["gate", "up", "down"]


def test_what_replaces_a_kernel_stands_at_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LOOK, COMPILED, "--beside", EAGER]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(place for place, line in enumerate(lines) if "triton gelu+mul" in line)
    words = [line.split() for line in lines[at : at + 4]]
    assert [row[0] for row in words] == ["5", "B", "mul", "6"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["look", EAGER, "--beside", LIGER],
        [*LOOK, EAGER, "--beside", LIGER, "--json"],
        [*LOOK, EAGER, "--beside", "linear_eager"],
        [*LOOK, EAGER, *(["--beside", LIGER] * 8)],
    ],
)
def test_what_cannot_be_put_beside(wrong: list[str]) -> None:
    assert main(wrong) == 2
