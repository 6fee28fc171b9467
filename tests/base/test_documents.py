"""Every `--json` answer holds what its JSON Schema promises."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from check.conftest import recorded
from compare import traces as compared
from corpus.build import cut, gn
from corpus.opening import run
from foretrace.base.tables import encode
from foretrace.check import check
from foretrace.check import documents as predictions
from foretrace.check.documents import document
from foretrace.check.quantities import quantities
from foretrace.compare import compare
from foretrace.compare import document as comparison_document
from foretrace.compare import documents as comparison
from foretrace.learn import explained as names
from foretrace.learn.claims import programs
from foretrace.look import documents as look
from foretrace.read.recordings import traces
from foretrace.record import lab_documents as lab
from foretrace.work.kernel_row import KernelRow
from sweep import part

ROOT = Path(__file__).parents[2]
RECORDED = ("mlp_eager", "mlp_compiled", "linear_eager_stack", "llama_train_eager")
COMPARED = {
    "changed kernels": ("mlp_compiled", "mlp_liger"),
    "fusion and run records": ("mlp eager", "mlp compiled"),
    "copies": ("matmul_add_4096_eager", "matmul_add_4096_compiled"),
    "no shapes": ("mlp compiled", "mlp graph"),
    "three traces": ("mlp_eager", "mlp_compiled", "mlp_liger"),
}


def fits(answer: Any, of: Any) -> None:
    jsonschema.validate(answer, msgspec.json.schema(of), cls=jsonschema.Draft202012Validator)


def refused(answer: Any, of: Any, match: str = ".") -> None:
    with pytest.raises(jsonschema.ValidationError, match=match):
        fits(answer, of)


def test_the_kept_results_of_bench() -> None:
    for path in sorted((ROOT / "benchmarks/results").glob("h200-kernels-*.json")):
        answer = json.loads(path.read_text())
        fits(answer, lab.BenchDocument)
        assert json.loads(lab.read_bench(path).text()) == answer, path.stem


def test_marked_predictions() -> None:
    texts = [quantity.example for quantity in quantities()] + ["kernls == 5"]
    for program in part(list(programs().values())):
        if not program.setup:
            found = check(recorded(program.trace), texts, recorded("mlp_compiled"))
            answer = json.loads(encode(document(found)))
            fits(answer, predictions.CheckDocument)
            assert list(answer) == ["schema", "hits", "misses", "unknown", "guesses"]
            errors = sum(guess["verdict"] == "error" for guess in answer["guesses"])
            score = answer["hits"] + answer["misses"] + answer["unknown"] + errors
            assert score == len(texts), program.name


@pytest.mark.parametrize(("field", "value"), [("verdict", "maybe"), ("measured", None)])
def test_what_is_not_a_verdict_is_refused(field: str, value: str | None) -> None:
    answer = json.loads(encode(document(check(recorded("mlp_eager"), "total.kernels == 15"))))
    answer["guesses"][0][field] = value
    refused(answer, predictions.CheckDocument)


def compare_answer(*given: str) -> Any:
    return json.loads(encode(comparison_document(compare(*map(compared.recorded, given)))))


@pytest.mark.parametrize("given", COMPARED.values(), ids=COMPARED)
def test_comparisons(given: tuple[str, ...]) -> None:
    fits(compare_answer(*given), comparison.CompareDocument)


def test_fields_of_a_comparison_that_do_not_apply_are_left_out() -> None:
    same = compare_answer("mlp_eager", "mlp_eager")
    assert {"bare_wall_ns", "bare_host_ns", "others", "published"}.isdisjoint(same)
    assert {"to", "why"}.isdisjoint(same["kernels"]["same"][0])
    timed = compare_answer("mlp eager", "mlp compiled")
    assert list(timed)[-3:] == ["bare_wall_ns", "bare_host_ns", "published"]
    del same["worth"]["text"]
    refused(same, comparison.CompareDocument, "'text' is a required property")


@pytest.mark.parametrize("part", ["--only linear", "--claim E17"])
def test_a_climb(part: str) -> None:
    answer = run("lab", "ladder", *part.split(), "--recorded", "h200", "--json").doc
    fits(answer, lab.LadderDocument)
    assert list(answer) == list(lab.LadderDocument.__struct_fields__)
    assert answer["schema"] == 2
    del answer["counts"]["miss"]
    refused(answer, lab.LadderDocument)


@pytest.mark.parametrize("name", RECORDED)
def test_a_look(name: str) -> None:
    answer = run("look", str(traces()[name]), "--json", "--no-cache").doc
    fits(answer, look.Look)
    assert list(answer) == list(look.Look.__struct_fields__)
    assert list(answer["kernels"][0]) == list(KernelRow.__struct_fields__)
    assert list(answer["findings"][0]) == list(look.Finding.__struct_fields__)
    del answer["totals"]["syncs"]
    refused(answer, look.Look)
    answer["totals"]["syncs"] = "1"
    refused(answer, look.Look)


def test_a_look_at_a_folder(tmp_path: Path) -> None:
    for name in RECORDED[:2]:
        shutil.copy(traces()[name], tmp_path)
    whole = gn(50).bytes()
    (tmp_path / "cut.json").write_bytes(cut(whole, len(whole) // 2))
    (tmp_path / "empty.json").write_text("")
    answer = run("look", str(tmp_path), "--json", "--no-cache").doc
    jsonschema.validate(answer, run("docs", "schema", "sets").doc)
    assert (len(answer["traces"]), len(answer["left_out"])) == (3, 1)


def test_what_a_terminal_acts_on_is_escaped() -> None:
    class Named(msgspec.Struct):
        name: str

    named = Named("\u202eabc\u2028\x9b\x1b é")
    text = encode(named)
    assert text == r'{"name":"\u202eabc\u2028\u009b\u001b é"}'
    assert msgspec.json.decode(text, type=Named) == named


def test_documents_are_listed_with_what_they_are() -> None:
    listed = run("docs", "schema").out.splitlines()
    assert {line.split()[0] for line in listed} >= {"look", "sets"}
    assert all(len(line.split()) > 3 for line in listed)
    ran = run("docs", "schema", "nonsense")
    assert (ran.code, ran.out) == (2, "")
    assert "look" in ran.err
    assert json.loads(run("docs", "schema", "look").out)["$ref"] == "#/$defs/Look"


def test_every_name_of_the_reference() -> None:
    validator = jsonschema.Draft202012Validator(msgspec.json.schema(names.DecodedName))
    lines = (ROOT / "tests/work/families/kernel_names.jsonl").read_text("utf-8").splitlines()
    known = [json.loads(line)["name"] for line in lines]
    documents = run("explain", "-", "--json", stdin="\n".join(known).encode()).doc
    assert len(documents) == len(known)
    for each in documents:
        validator.validate(each)
    del documents[0]["role"]
    refused(documents[0], names.DecodedName)


@pytest.mark.parametrize("text", ["ampere_sgemm_128x64_nn", "nobody knows this"])
def test_a_name_with_a_card(text: str) -> None:
    answer = run("explain", text, "--gpu", "H200", "--json").doc
    fits(answer, names.DecodedName)
    assert answer["gpu"]["arch"] == "sm90"
