"""Whatever a user can reach is documented, and whatever is documented is there and works."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import foretrace
from corpus.places import PUBLIC
from foretrace.base import budget, plugins, tables
from foretrace.base.budget import Limits, parse_limits
from foretrace.check.jobs import JOB, TRIES
from foretrace.check.marking import read
from foretrace.check.quantities import QUANTITIES
from foretrace.cli import foretrace as group
from foretrace.cli import main
from foretrace.look.fixes import predicted
from foretrace.look.rules import rules
from foretrace.read import recordings
from foretrace.trace.groups import GpuWork
from foretrace.trace.query import QueryProcess
from foretrace.work.kernel import KernelId
from look.rules.sketch import COPY, MUL, Sketch, kernel
from opened_traces import open_made
from sweep import looped

ROOT = Path(__file__).resolve().parents[1]
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
WRITTEN = [README, CONTRIBUTING, *PAGES]
TEXT = "\n".join(page.read_text() for page in [README, *PAGES])
COMMANDS = group.list_commands(click.Context(group))


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_about_the_code_name_files_that_are_there() -> None:
    folders = ("src", "tests", "tools", "benchmarks", "web")
    files = [f"/{file}" for folder in folders for file in (ROOT / folder).rglob("*.py")]
    for page in ("architecture.md", "first-hour.md"):
        named = set(re.findall(r"`([\w/]+\.py)`", _page(page)))
        missing = [name for name in named if not any(file.endswith(f"/{name}") for file in files)]
        assert named
        assert not missing, f"{page} names files that are gone"


@looped("name", COMMANDS)
def test_every_command_is_in_the_readme_or_a_page(name: str) -> None:
    assert re.search(rf"foretrace {name}\b", TEXT), (
        f"document `foretrace {name}` in README.md or docs/"
    )


@looped("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    waiting = [command]
    while waiting:
        one = waiting.pop()
        assert one is not None
        silent = [
            option.name
            for option in one.params
            if isinstance(option, click.Option) and not option.help
        ]
        assert silent == []
        if isinstance(one, click.Group):
            waiting += [
                one.get_command(click.Context(one), inner)
                for inner in one.list_commands(click.Context(one))
            ]


@looped("page", WRITTEN, ids=lambda page: page.name)
def test_no_text_is_read_as_an_html_tag(page: Path) -> None:
    prose = re.sub(r"^```.*?^ *```|^ {4}.*?$|`[^`]*`", "", page.read_text(), flags=re.M | re.S)
    assert (
        re.findall(r"(?<!\\)<[a-zA-Z][^>\n]*>", prose) == []
    )  # a browser would drop `<dtype>` silently


@looped("page", WRITTEN, ids=lambda page: page.name)
def test_only_commands_and_pages_that_exist_are_named(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"(?:^ {4}|^\$ |`)foretrace ([a-z]+)\b", text, re.MULTILINE))
    assert named <= set(COMMANDS)
    shown = set(re.findall(r"foretrace docs ([a-z-]+)", text))
    assert shown <= {"schema", *(path.stem for path in PAGES)}


def test_the_layers_of_the_architecture_page_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [
        room
        for layer in contracts["contracts"][0]["layers"]
        for room in sorted(layer.split(" | "))[::-1]
    ]
    page = _page("architecture.md")
    drawn = next(line for line in page.splitlines() if "base ◀" in line)
    assert re.findall(r"\w+", drawn) == layers[::-1]
    rooms = re.findall(r"^\| `(\w+)` \|", page.partition("| room |")[2], re.MULTILINE)[
        : len(layers)
    ]
    assert sorted(rooms) == sorted(layers)


@looped("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = "\n".join(line for line in page.read_text().splitlines() if not line.startswith("    "))
    targets = re.findall(r"\]\((?!http)([^)#\s]+)", prose)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(re.findall(r"[\w-]+\.md", str(nav))) == [page.name for page in PAGES]


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if "```console" in page.read_text()], ids=lambda p: p.name
)
def test_the_examples_print_what_the_page_shows(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Commands without a shell's signs run here, the others as `make pages` runs them."""
    tool, text = _tool("examples"), page.read_text()
    apart = tool._output
    monkeypatch.chdir(tool.folder(page))
    for name, value in {**tool.SETTINGS, "FORETRACE_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)

    def output(command: str) -> str:
        if set(command) & set("|<>;&$"):
            return str(apart(command))
        monkeypatch.setattr("foretrace.base.errors._said", set())
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main(shlex.split(command)[1:])
        return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())

    monkeypatch.setattr(tool, "_output", output)
    assert tool.refreshed(text) == text, "run `make pages`"


@pytest.mark.skipif(not PUBLIC, reason="FORETRACE_PUBLIC_TRACES names no folder of public traces")
def test_the_screen_of_vllm_is_that_of_the_public_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    block = _page("how-to-serving.md").partition("```text\n")[2].partition("```")[0]
    path = Path(PUBLIC, "serving", "vllm_decode_full", "replay.json.gz")
    assert main(["look", str(path), "--no-cache"]) == 0
    assert capsys.readouterr().out.startswith(block.partition("\n")[2])


def test_the_worked_example_of_a_family_decodes_its_example() -> None:
    page = _page("how-to-kernel-family.md")
    code, example = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "json")
    )
    module = ModuleType("acme")
    exec(compile(code[0], "acme.py", "exec"), module.__dict__)
    expected = json.loads(example[0])
    kernel = module.acme.decode(expected["name"])
    assert {field: kernel.fields[field] for field in expected["fields"]} == expected["fields"]
    assert module.acme.decode("aten::mm") is None


def test_the_worked_example_of_a_rule_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = _worked_example("empty_steps")
    trace = foretrace.open(recordings.traces()["mlp_eager"], cache=False)
    assert list(rule.check(trace)) == []
    monkeypatch.setattr(trace, "kernels", trace.kernels.clear())
    monkeypatch.setattr(trace, "copies", trace.copies.clear())
    (finding,) = rule.check(trace)
    assert (finding.title, finding.evidence) == ("3 steps launched nothing", {"steps": [2, 3, 4]})
    assert (rule.name, plugins.manual(rule.check)[0]) == ("empty_steps", f"{rule.title}.")


def test_the_worked_example_of_a_fix_runs(tmp_path: Path) -> None:
    fix = _worked_example("spare_clones")
    sketch = Sketch()
    for _ in range(3):
        sketch.step().op("aten::mul", kernel(MUL, 60)).op("aten::clone", kernel(COPY, 40))
    before = predicted(open_made(sketch, tmp_path))
    assert before is not None
    (proposal,) = fix.find(before.step)
    assert (proposal.order, proposal.why) == ("leave out .clone()", "1 clone per step")
    (row,) = proposal.change.gone
    assert before.step.trace.gpu.length[row] == 40_000


def _worked_example(name: str) -> Any:
    """What the example of CONTRIBUTING.md with this function declares."""
    codes = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    module = ModuleType(name)
    exec(next(code for code in codes if f"def {name}(" in code), vars(module))
    return vars(module)[name]


def test_the_worked_examples_of_a_feature_and_of_a_page_run() -> None:
    codes = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    feature = ModuleType("longest")
    for mark in ("class Longest", "def lines", "def longest_html"):
        code = next(code for code in codes if mark in code)
        exec(compile(code, "longest.py", "exec"), vars(feature))
    rows = feature.longest(foretrace.open(recordings.traces()["mlp_eager"], cache=False))
    assert [(row.stream, row.dur_ns) for row in rows] == [(7, 56544)]
    screen = feature.lines(rows)
    name = rows[0].kernel
    assert tables.text(screen).splitlines()[-1] == f"  {7:>6}  {name}  56.5 us"
    assert tables.csv_text(screen).splitlines()[1] == f"7,{name},56544"
    assert name in feature.longest_html(rows)


def test_the_worked_example_of_a_group_names_its_work() -> None:
    codes = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    module = ModuleType("fft")
    exec(
        compile(next(code for code in codes if "WorkGroup(" in code), "fft.py", "exec"),
        vars(module),
    )
    kernel = KernelId("regular_fft", "regular_fft", "unknown", "other")
    launches = [GpuWork(kernel, "other", (op,), None, "") for op in ("aten::_fft_r2c", "aten::mul")]
    assert [module.GROUPS[0].name_of(work) for work in launches] == ["FFT", ""]


def test_the_worked_example_of_a_column_is_in_every_answer(tmp_path: Path) -> None:
    package, copy = Path(foretrace.__file__).parent, tmp_path / "foretrace"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (diff,) = re.findall(r"```diff\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    path = tmp_path / re.findall(r"^\+\+\+ b/src/(.*)", diff, re.MULTILINE)[0]
    text = path.read_text()
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] or line for line in lines if line[0] != "+")
        assert text.count(before) == 1
        text = text.replace(before, "".join(line[1:] or line for line in lines))
    path.write_text(text)

    def answer(*words: str) -> str:
        settings = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "120"}
        command = [sys.executable, "-P", "-m", "foretrace", *words]
        run = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
        assert run.returncode in (0, 1), run.stderr
        return run.stdout

    wanted = 571.5  # of all three matmuls: 8192 x 768 x 3072, in bf16
    terminal = answer("look", "mlp_eager", "--kernels", "--no-cache")
    assert re.search(r"FLOP/B.*\n.* 571\.5 ", terminal)
    document = json.loads(answer("look", "mlp_eager", "--json", "--no-cache"))
    assert wanted in {row["intensity"] for row in document["kernels"]}
    compared = json.loads(answer("compare", "mlp_eager", "mlp_eager", "--json"))
    assert wanted in {row["kernel"]["intensity"] for row in compared["kernels"]["same"]}
    head, *rows = csv.reader(answer("export", "mlp_eager", "--to", "csv").splitlines())
    assert str(wanted) in {row[head.index("intensity")] for row in rows}
    for least, verdict in ((500, "hit"), (600, "miss")):
        prediction = f"intensity(gemm) > {least}"
        (marked,) = json.loads(answer("check", "mlp_eager", "--json", prediction))["guesses"]
        assert marked["verdict"] == verdict
    page = tmp_path / "report.html"
    answer("report", "mlp_eager", "-o", str(page))
    assert f'"intensity":{wanted}' in page.read_text()


def test_the_worked_example_of_a_quantity_decides_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(QUANTITIES, "short_kernels", QUANTITIES["kernels"])  # gone afterwards
    _worked_example("short_kernels")
    trace = foretrace.open("mlp_eager", cache=False)
    texts = ["short_kernels == 0", "in step 3: short_kernels > 0", "total.short_kernels < 1"]
    marked = foretrace.check(trace, texts)
    assert [each.verdict for each in marked] == ["hit", "miss", "hit"]
    (marked,) = foretrace.check("llama", ["short_kernels > 170"])
    assert (marked.verdict, marked.measured) == ("miss", "165")


def test_the_table_of_quantities_is_that_of_the_code() -> None:
    assert _tool("quantities_page").refreshed(_page("check.md")) == _page("check.md"), (
        "run `make pages`"
    )


def test_every_quantity_of_a_job_and_of_tries_is_documented() -> None:
    named = set(re.findall(r"`([a-z_.]+)[(`]", _page("check.md")))
    assert {*JOB, *TRIES} <= named


def test_the_expressions_of_the_page_can_be_read() -> None:
    """Each piece of code in docs/check.md that compares something in a trace."""
    page = re.sub(
        r"```.*?```|, and between two results.*?`lost > 0`", "", _page("check.md"), flags=re.DOTALL
    )
    texts = [
        text
        for text in re.findall(r"`([^`]+)`", page.partition("## Jobs")[0])
        if re.search(r"\w.* (?:[<>]=?|==|~|in) [\w(]", text) and "foretrace" not in text
    ]
    assert len(texts) > 15
    for text in texts:
        read(text)


def test_every_limit_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)=(\w*)`(.*?) \|", _page("look.md"), re.MULTILINE)
    assert tuple(name for name, *_ in rows) == Limits.__struct_fields__
    assert parse_limits(tuple(f"{name}={value}" for name, value, _ in rows if value)) == Limits()
    assert [grows for *_, grows in rows if grows] == [
        f" {budget.BASE_S:.0f}, and {budget.S_PER_MB:.0f} per MB of JSON",
        f" {budget.BASE_BYTES >> 20} MiB, and {budget.BYTES_PER_BYTE} times the JSON",
    ]
    look = group.get_command(click.Context(group), "look")
    assert look is not None
    (limit,) = [option for option in look.params if option.name == "limit"]
    assert "(foretrace docs look)" in str(limit.to_info_dict()["help"])


def test_every_table_is_documented_with_its_columns() -> None:
    trace = foretrace.open(recordings.traces()["mlp_eager"], cache=False)
    rows = re.findall(r"^\| `(\w+)` \| .* \| ((?:`\w+` ?)+) \|$", _page("python.md"), re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}
    assert told == {name: trace.table(name).columns for name in trace.table_names()}


def test_the_queries_of_the_page_run() -> None:
    trace = foretrace.open(recordings.traces()["mlp_eager"], cache=False)
    queries = re.findall(r"^    (select .+)", _page("serve.md"), re.MULTILINE)
    assert len(queries) == 2
    for query in queries:
        with contextlib.closing(QueryProcess()) as process:
            assert process.run(trace, query, Limits(), 10).count


def test_every_public_name_is_documented() -> None:
    names = [name for name in foretrace.__all__ if not name.startswith("_")]
    assert [name for name in names if not re.search(rf"`{name}[(`]", _page("python.md"))] == []
    assert sorted(
        re.findall(r"^<!-- site: (\w+) -->$", _page("reference.md"), re.MULTILINE)
    ) == sorted(names)


def test_the_site_holds_what_the_code_tells() -> None:
    site = _tool("site")
    places = [place for page in PAGES for place in site.PLACE.findall(page.read_text())]
    assert {"rules", "families", "commands", "claims"} < set(places)
    assert all(site.told(place).strip() for place in places)
    assert site.told("rules").count("When it is wrong:") == len(rules())
    assert len(site.told("families").splitlines()) > 300


def test_geglu_has_no_cliff() -> None:
    """docs/roofs.md: from the best size inside L2 to the worst behind it."""
    found = json.loads((ROOT / "benchmarks/results/h200-cliff.json").read_text())
    rows = {row["rows"]: row for row in found["rows"]}
    for form, best, loss in (("unfused", 1280, 1.13), ("fused", 1536, 1.11)):
        per = {count: row[form]["us"] / count for count, row in rows.items()}
        assert round(max(ns for count, ns in per.items() if count > best) / per[best], 2) == loss
