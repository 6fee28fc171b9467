"""The answer of `foretrace worth --json` has the schema that it declares."""

from __future__ import annotations

import json

import jsonschema
import pytest

torch = pytest.importorskip("torch")
from foretrace.cli import main  # noqa: E402
from foretrace.record.experiments import worth as experiment  # noqa: E402
from foretrace.schema.documents import json_schema, worth  # noqa: E402
from record.experiments.conftest import dynamo_alone, few_calls  # noqa: E402, F401

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("few_calls", "dynamo_alone")]


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
    assert main([*line.split(), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json_schema(worth.DOCUMENT))
    assert list(answer) == list(worth.DOCUMENT.__struct_fields__)
    tried, failed = answer["modes"]
    assert list(tried) == list(worth.CompileMode.__struct_fields__)
    assert list(failed) == ["mode", "state", "text", "failed"]
    assert list(tried["shapes"][0]) == list(worth.CompiledShape.__struct_fields__)
