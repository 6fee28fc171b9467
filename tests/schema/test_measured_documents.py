"""The answers of `foretrace shapes --json` and `worth --json` have the schemas that they declare."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

torch = pytest.importorskip("torch")
from foretrace.cli import main  # noqa: E402
from foretrace.record.experiments import worth as experiment  # noqa: E402
from foretrace.schema.documents import json_schema, shapes, worth  # noqa: E402
from record.experiments.conftest import dynamo_alone, few_calls  # noqa: E402, F401

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("few_calls", "dynamo_alone")]


def answer_of(line: str, of: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*line.split(), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json_schema(of))
    assert list(answer) == list(of.__struct_fields__)
    return answer


def test_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    line = "shapes mlp --sweep batch=1,2 --contenders eager,dynamic,liger --small --device cpu"
    answer = answer_of(line, shapes.DOCUMENT, capsys)
    assert [entry["name"] for entry in answer["contenders"]] == ["eager", "dynamic"]
    assert [entry["name"] for entry in answer["left_out"]] == ["liger"]
    assert list(answer["contenders"][0]["visits"][0]) == list(shapes.ShapeVisit.__struct_fields__)


def test_a_mode_that_compiles_and_one_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(graph: object, inputs: object) -> object:
        raise RuntimeError("not this graph")

    def compiler(mode: str, device: str) -> object:
        backend = "eager" if mode == "default" else refuses
        return lambda thing: torch.compile(thing, backend=backend)

    monkeypatch.setattr(experiment, "compiler", compiler)
    line = "worth matmul_add --sweep size=4,8 --mode default --mode max-autotune --device cpu"
    tried, failed = answer_of(line, worth.DOCUMENT, capsys)["modes"]
    assert list(tried) == list(worth.CompileMode.__struct_fields__)
    assert list(failed) == ["mode", "state", "text", "failed"]
    assert list(tried["shapes"][0]) == list(worth.CompiledShape.__struct_fields__)
