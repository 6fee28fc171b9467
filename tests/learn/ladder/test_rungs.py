"""The contract of every rung: it declares itself, runs on a CPU at its small sizes, and its trace
says what it was.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.errors import MissingError, UsageError
from foretrace.learn import ladder
from foretrace.schema.rung import COMPILED, Choice, Rung

RUNGS = ladder.rungs()
NEEDS_GPU = {
    ("mlp", "liger"),
    ("block", "liger"),
    ("attention", "efficient"),
    ("attention", "cudnn"),
}
PAIRS = [(rung, variant) for rung in RUNGS for variant in rung.variants]

Counts = Callable[[Path], Counter[str]]


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_rung_declares_itself(rung: Rung) -> None:
    assert rung.build.__module__ == f"foretrace.learn.ladder.rungs.{rung.name}"
    assert rung.title
    assert all(rung.variants.values())
    assert COMPILED not in rung.variants
    names = [option.name for option in rung.options]
    assert len(set(names)) == len(names)
    for option in rung.options:
        assert option.help
        assert option.small is None or type(option.small) is type(option.default)
        assert not option.choices or option.default in option.choices


def test_the_ladder_is_climbed_from_the_bottom() -> None:
    assert [rung.name for rung in RUNGS][: len(ladder.ORDER)] == list(ladder.ORDER)


def test_listing_the_rungs_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from foretrace.learn import ladder; "
        "print(len(ladder.rungs()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(len(RUNGS))


def test_a_wrong_name_gets_the_right_one() -> None:
    with pytest.raises(UsageError, match="did you mean attention"):
        ladder.rung("atention")


def test_values_given_small_and_full() -> None:
    mlp = ladder.rung("mlp")
    assert mlp.values({})["hidden"] == 3072
    assert mlp.values({"dim": 8, "hidden": None}, small=True) == {
        "batch": 4,
        "seq": 32,
        "dim": 8,
        "hidden": 512,
        "backward": False,
    }


@pytest.mark.torch
@pytest.mark.parametrize(
    ("rung", "variant"), PAIRS, ids=[f"{rung.name}-{variant}" for rung, variant in PAIRS]
)
def test_every_variant_runs_on_a_cpu_or_says_what_is_missing(
    rung: Rung, variant: str, tmp_path: Path, counts: Counts
) -> None:
    pytest.importorskip("torch")
    if rung.name == "model":
        pytest.importorskip("transformers")
    choice = Choice(variant=variant, device="cpu", dtype="fp32", small=True)
    done, missing = _run(rung, choice, tmp_path)
    if done is None:
        assert variant != next(iter(rung.variants)), "the first variant of a rung runs everywhere"
        assert "\n" not in missing
        assert list(tmp_path.iterdir()) == []
        return
    said = json.loads(done.record_file.read_text())
    assert said["rung"]["name"] == rung.name
    assert (said["rung"]["variant"], said["rung"]["compiled"]) == (variant, False)
    assert set(said["rung"]["options"]) == {option.name for option in rung.options}
    assert done.trace.name.startswith(f"{rung.name}_{variant}_")
    found = counts(done.trace)
    assert found[said["rung"]["region"]] == 2
    assert (found["ProfilerStep#2"], found["ProfilerStep#3"]) == (1, 1)


def _run(rung: Rung, choice: Choice, folder: Path) -> tuple[Any, str]:
    try:
        return ladder.run(rung, choice, folder, steps=2, warmup=1), ""
    except MissingError as problem:
        return None, str(problem)


@pytest.mark.torch
@pytest.mark.parametrize(("name", "variant"), sorted(NEEDS_GPU))
def test_what_needs_a_gpu_says_so_in_one_line(name: str, variant: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(MissingError) as caught:
        ladder.run(ladder.rung(name), Choice(variant=variant, device="cpu"), tmp_path)
    assert caught.value.exit_code == 4


@pytest.mark.torch
def test_a_wrong_variant_is_told_the_right_ones(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="choose from eager, addmm, compiled"):
        ladder.run(ladder.rung("matmul_add"), Choice(variant="liger"), tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (Choice(variant="liger"), "mlp_liger_4x32x128x512_fp32_cpu"),
        (Choice(variant="compiled"), "mlp_compiled_4x32x128x512_fp32_cpu"),
        (Choice(variant="fused", compile=True), "mlp_fused_compiled_4x32x128x512_fp32_cpu"),
        (
            Choice(compile=True, mode="max-autotune"),
            "mlp_compiled_max-autotune_4x32x128x512_fp32_cpu",
        ),
        (Choice(values={"backward": True, "dim": 8}), "mlp_eager_4x32x8x512_backward_fp32_cpu"),
    ],
)
def test_files_are_named_by_what_ran(choice: Choice, name: str) -> None:
    pytest.importorskip("torch")
    from foretrace.learn.ladder.stops import file_name
    from foretrace.record.experiments.machine import prepare

    mlp, choice = ladder.rung("mlp"), replace(choice, device="cpu", dtype="fp32", small=True)
    assert file_name(mlp, prepare(mlp, choice), choice) == name
