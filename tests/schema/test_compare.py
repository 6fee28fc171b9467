"""`compare --json` holds what its JSON Schema promises."""

from __future__ import annotations

import json

import jsonschema
import pytest

from analyze.compare.traces import recorded
from foretrace.analyze.compare import compare, document
from foretrace.schema.documents import encode, json_schema
from foretrace.schema.documents.compare import DOCUMENT

ANSWERS = {
    "changed kernels": ("mlp_compiled", "mlp_liger"),
    "fusion and run records": ("mlp eager", "mlp compiled"),
    "copies": ("matmul_add_4096_eager", "matmul_add_4096_compiled"),
    "no shapes": ("mlp compiled", "mlp graph"),
    "three traces": ("mlp_eager", "mlp_compiled", "mlp_liger"),
}


@pytest.mark.parametrize("names", ANSWERS.values(), ids=ANSWERS)
def test_recorded_answers_match_the_schema(names: tuple[str, ...]) -> None:
    answer = json.loads(encode(document(compare(*map(recorded, names)))))
    jsonschema.validate(answer, json_schema(DOCUMENT), cls=jsonschema.Draft202012Validator)


def test_the_schema_refuses_a_document_without_a_field() -> None:
    answer = json.loads(encode(document(compare(recorded("mlp_eager"), recorded("mlp_eager")))))
    del answer["worth"]["text"]
    with pytest.raises(jsonschema.ValidationError, match="'text' is a required property"):
        jsonschema.validate(answer, json_schema(DOCUMENT))


def test_fields_that_do_not_apply_are_left_out() -> None:
    same = json.loads(encode(document(compare(recorded("mlp_eager"), recorded("mlp_eager")))))
    assert {"bare_wall_ns", "bare_host_ns", "others"}.isdisjoint(same)
    assert {"to", "why"}.isdisjoint(same["kernels"]["same"][0])
    timed = json.loads(encode(document(compare(recorded("mlp eager"), recorded("mlp compiled")))))
    assert list(timed)[-2:] == ["bare_wall_ns", "bare_host_ns"]
