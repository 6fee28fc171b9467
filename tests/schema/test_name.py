"""`foretrace name --json` holds to its JSON Schema, for every name of the reference list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from foretrace.cli.name import command
from foretrace.schema.documents import json_schema, name

NAMES = Path(__file__).parents[1] / "names/families/kernel_names.jsonl"
VALIDATOR = jsonschema.Draft202012Validator(json_schema(name.DOCUMENT))


def answer(*arguments: str, stdin: str | None = None) -> Any:
    result = CliRunner().invoke(command, [*arguments, "--json"], input=stdin)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_every_name_of_the_reference() -> None:
    names = [json.loads(line)["name"] for line in NAMES.read_text("utf-8").splitlines()]
    documents = answer("-", stdin="\n".join(names))
    assert len(documents) == len(names)
    for document in documents:
        VALIDATOR.validate(document)


@pytest.mark.parametrize("text", ["ampere_sgemm_128x64_nn", "nobody knows this"])
def test_with_a_card(text: str) -> None:
    document = answer(text, "--gpu", "H200")
    VALIDATOR.validate(document)
    assert document["gpu"]["arch"] == "sm90"


def test_the_schema_names_the_fields() -> None:
    document = answer("nvjet_tst_64x64_64x8_2x1_v_bz_TNT")
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({key: value for key, value in document.items() if key != "role"})
