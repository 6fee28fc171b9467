"""`check --json` and `guess --from --json` hold what their JSON Schemas promise."""

from __future__ import annotations

import json

import jsonschema
import pytest

from analyze.guess.conftest import TEXTS, recorded
from foretrace.analyze.guess import baseline, check
from foretrace.analyze.guess.marking import document
from foretrace.learn.claims import programs
from foretrace.schema.documents import encode, json_schema
from foretrace.schema.documents.check import DOCUMENT
from foretrace.schema.documents.guess import DOCUMENT as GUESSES

TRACES = [program.trace for program in programs().values() if not program.setup]


@pytest.mark.parametrize("name", TRACES)
def test_recorded_answers_match_the_schema(name: str) -> None:
    answer = json.loads(encode(document(check(recorded(name), TEXTS, recorded("mlp_compiled")))))
    jsonschema.validate(answer, json_schema(DOCUMENT))
    assert list(answer) == ["schema", "hits", "misses", "unknown", "guesses"]
    errors = sum(guess["verdict"] == "error" for guess in answer["guesses"])
    assert answer["hits"] + answer["misses"] + answer["unknown"] + errors == len(TEXTS)


@pytest.mark.parametrize("name", ["mlp_eager", "mlp_compiled", "linear_eager"])
def test_guesses_from_a_trace_match_the_schema(name: str) -> None:
    answer = json.loads(encode(baseline.document(recorded(name))))
    jsonschema.validate(answer, json_schema(GUESSES))
    assert [list(guess) for guess in answer["guesses"]] == [["text", "reason"]] * len(
        answer["guesses"]
    )


@pytest.mark.parametrize(("field", "value"), [("verdict", "maybe"), ("measured", None)])
def test_the_schema_refuses_what_is_not_a_verdict(field: str, value: str | None) -> None:
    answer = json.loads(encode(document(check(recorded("mlp_eager"), "kernels == 15"))))
    answer["guesses"][0][field] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, json_schema(DOCUMENT))
