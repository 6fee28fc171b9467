"""The answer of `foretrace shapes --json` has the schema that it declares."""

from __future__ import annotations

import json

import jsonschema
import pytest

pytest.importorskip("torch")
from foretrace.cli import main
from foretrace.schema.documents import json_schema, shapes
from record.experiments.conftest import dynamo_alone, few_calls  # noqa: F401

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("few_calls", "dynamo_alone")]


def test_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    line = "shapes mlp --sweep batch=1,2 --contenders eager,dynamic,liger --small --device cpu"
    assert main([*line.split(), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json_schema(shapes.DOCUMENT))
    assert list(answer) == list(shapes.DOCUMENT.__struct_fields__)
    assert [entry["name"] for entry in answer["contenders"]] == ["eager", "dynamic"]
    assert [entry["name"] for entry in answer["left_out"]] == ["liger"]
    assert list(answer["contenders"][0]["visits"][0]) == list(shapes.ShapeVisit.__struct_fields__)
