"""The answer of `foretrace ladder --json` has the schema that it declares."""

from __future__ import annotations

import json

import jsonschema
import pytest

from foretrace.cli import main
from foretrace.schema.documents import json_schema, ladder


@pytest.mark.parametrize("part", [["--only", "linear"], ["--claim", "E17"]], ids=" ".join)
def test_the_recorded_climb(part: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [*part, "--recorded", "h200"]
    assert main(["ladder", *words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json_schema(ladder.DOCUMENT))
    assert list(answer) == list(ladder.DOCUMENT.__struct_fields__)
    assert answer["schema"] == 1
    del answer["counts"]["miss"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, json_schema(ladder.DOCUMENT))
