"""`share --json` holds what its JSON Schema promises."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from foretrace.cli import main
from foretrace.read.recordings import traces
from foretrace.schema.documents import json_schema
from foretrace.schema.documents.share import DOCUMENT


def test_the_answer_matches_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(traces()["linear_eager"])
    assert main(["share", path, "--to", str(tmp_path), "--json", "--no-cache"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json_schema(DOCUMENT), cls=jsonschema.Draft202012Validator)
    assert [each["source"] for each in answer["shared"]] == [path]
