"""What every family must keep, whoever wrote it: a file dropped into the package is picked up here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from foretrace.work import families
from foretrace.work.kernel import CERTAINTIES, ROLES, Family, KernelId

EVERY = families.every()
FOLDER = Path(__file__).parent / "examples"


def worked(family: Family) -> dict[str, dict[str, Any]]:
    """The worked examples of a family: name to fields that decoding it must state."""
    path = FOLDER / f"{family.name}.jsonl"
    rows = map(json.loads, path.read_text("utf-8").splitlines() if path.exists() else ())
    return {row["name"]: row["fields"] for row in rows}


EXAMPLES = [(family, name, fields) for family in EVERY for name, fields in worked(family).items()]


def check(kernel: KernelId) -> None:
    """The shape of a decoded name."""
    assert kernel.role in ROLES
    assert 0 < len(kernel.short) <= 48
    json.dumps(dict(kernel.fields))
    stated = {part.field for part in kernel.parts}
    assert set(kernel.fields) <= stated, "a field without a part that says how sure it is"
    for part in kernel.parts:
        assert part.text in kernel.name
        assert part.certainty in CERTAINTIES
        assert part.meaning
        assert part.field == "" or part.field in kernel.fields


def test_names_of_families_are_distinct() -> None:
    assert [
        name for name, count in Counter(family.name for family in EVERY).items() if count > 1
    ] == []


def test_families_are_asked_in_order() -> None:
    assert [family.order for family in EVERY] == sorted(family.order for family in EVERY)


def test_a_family_brings_examples_and_knows_its_own() -> None:
    aliens = ("", "x", "aten::mm", "ProfilerStep#3", "void f(int)", "_Z", "void ", "(", "<")
    for family in EVERY:
        assert worked(family), f"tests/work/families/examples/{family.name}.jsonl has no example"
        assert family.states == {field for fields in worked(family).values() for field in fields}
        for alien in aliens:
            found = family.decode(alien)
            assert found is None or found.family == family.name


def test_every_file_of_examples_belongs_to_a_family() -> None:
    assert {path.stem for path in FOLDER.iterdir()} <= {family.name for family in EVERY}


def test_the_examples() -> None:
    for family, name, expected in EXAMPLES:
        kernel = families.decode(name)
        check(kernel)
        assert kernel.family == family.name, name
        stated = {field: kernel.fields.get(field, "absent") for field in expected}
        assert stated == expected, name


@pytest.mark.sweep(3)
@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)
def test_a_cut_example_states_nothing_else(family: Family) -> None:
    """Whatever column a report cuts a name at, the dots it leaves must not turn half a number into
    a field.
    """
    for name in worked(family):
        whole = families.decode(name)
        for length in range(8, len(name)):
            cut = families.decode(name[:length] + "...")
            check(cut)
            if cut.family == whole.family and "op" in cut.fields:
                firm = FIRM & set(cut.fields) & set(whole.fields)
                wrong = {field for field in firm if cut.fields[field] != whole.fields[field]}
                assert wrong == set(), cut.name


# Fields whose value a cut may hide but never change.
FIRM = {
    "tile", "tile_mn", "tile_k", "stages", "cluster", "layout", "layout_raw", "mma", "splitk",
    "arch", "head_dim", "vec", "block_m", "block_n", "warps", "knob", "dtype_in", "dtype_out",
    "dtype_acc", "dtype_a", "dtype_b", "ops", "suffix", "threads", "per_thread", "dims",
    "max_threads", "out_vec", "log2_elements", "mfma", "workgroup",
}  # fmt: skip


def test_a_family_that_crashes_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(name: str) -> KernelId | None:
        raise RuntimeError(name)

    broken = Family(name="broken", decode=crash, order=0)
    monkeypatch.setattr(families, "every", lambda: (broken, *EVERY))
    assert families.decode.__wrapped__("volta_sgemm_128x64_nn").family == "cublas_legacy"
