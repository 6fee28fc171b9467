"""`look --json`, of a trace and of a folder, is what its JSON Schema says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from corpus.build import cut, gn
from corpus.opening import run
from foretrace.read import recordings
from foretrace.schema.documents import look

NAMES = ("mlp_eager", "mlp_compiled", "linear_eager_stack", "llama_train_eager")


def schema(name: str) -> dict[str, Any]:
    return run("schema", name).doc


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_answer_fits_the_schema(name: str) -> None:
    answer = run("look", str(recordings.traces()[name]), "--json", "--no-cache").doc
    jsonschema.validate(answer, schema("look"))
    assert list(answer) == list(look.Look.__struct_fields__)
    assert list(answer["kernels"][0]) == list(look.KernelRow.__struct_fields__)
    assert list(answer["findings"][0]) == list(look.FindingEntry.__struct_fields__)


def test_a_folder_fits_the_schema(tmp_path: Path) -> None:
    for name in NAMES[:2]:
        shutil.copy(recordings.traces()[name], tmp_path)
    whole = gn(50).bytes()
    (tmp_path / "cut.json").write_bytes(cut(whole, len(whole) // 2))
    (tmp_path / "empty.json").write_text("")
    answer = run("look", str(tmp_path), "--json", "--no-cache").doc
    jsonschema.validate(answer, schema("sets"))
    assert (len(answer["traces"]), len(answer["left_out"])) == (3, 1)


def test_a_field_too_few_or_of_another_type_does_not_fit() -> None:
    answer = run("look", str(recordings.traces()["mlp_eager"]), "--json", "--no-cache").doc
    del answer["totals"]["syncs"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, schema("look"))
    answer["totals"]["syncs"] = "1"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, schema("look"))


def test_documents_are_listed_with_what_they_are() -> None:
    listed = run("schema").out.splitlines()
    assert {line.split()[0] for line in listed} >= {"look", "sets"}
    assert all(len(line.split()) > 3 for line in listed)
    ran = run("schema", "nonsense")
    assert (ran.code, ran.out) == (2, "")
    assert "look" in ran.err


def test_the_schema_is_json(tmp_path: Path) -> None:
    assert json.loads(run("schema", "look").out)["$ref"] == "#/$defs/Look"
