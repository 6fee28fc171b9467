"""The kept results of `foretrace bench` have the schema that they declare."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from foretrace.schema.documents import bench, json_schema

RESULTS = sorted((Path(__file__).parents[2] / "benchmarks/results").glob("h200-kernels-*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_kept_results(path: Path) -> None:
    answer = json.loads(path.read_text())
    jsonschema.validate(answer, json_schema(bench.DOCUMENT))
    assert json.loads(bench.read(path).text()) == answer
