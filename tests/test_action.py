"""The GitHub Action, step by step as a runner executes it: with the real package and a `gh` that
writes down what it was told.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compare.traces import steps, written
from foretrace.compare.history import HistoryEntry, add_entry

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
WORKFLOW = yaml.safe_load((ROOT / "examples/performance.yml").read_text())
RECORDED = ROOT / "tests/recorded/pages/how-to-github"
EVIL = "a`touch pwned`$(touch pwned); touch pwned | <!-- @everyone --> **b**"
GH = """#!/bin/bash
printf '%q ' "$@" >> "$FAKE/log"; echo >> "$FAKE/log"
case "$1 $2" in
  "run list") cat "$FAKE/runs" ;;
  "run download") mkdir -p "$(dirname "${@: -1}")"; cp -r "$FAKE/artifacts/$3" "${@: -1}" ;;
  *) case "$*" in
    *body=@*) [[ ! -e "$FAKE/refuses" ]] || exit 1; last="${@: -1}"; cp "${last#body=@}" "$FAKE/comment" ;;
    *) cat "$FAKE/comments" ;;
  esac ;;
esac
"""


class Runner:
    """What GitHub is to an action: contexts, files for outputs, artifacts, and `gh`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fake, self.temp = folder / "repo", folder / "fake", folder / "temp"
        for each in (self.folder, self.fake / "artifacts", self.temp, folder / "bin"):
            each.mkdir(parents=True)
        python = f'exec "{sys.executable}"'
        for name, text in {
            "gh": GH,
            "python": f'#!/bin/sh\n{python} "$@"\n',
            "foretrace": f'#!/bin/sh\n{python} -m foretrace "$@"\n',
        }.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        for name in ("runs", "comments", "log", "comment"):
            (self.fake / name).write_text("")
        self.summary = folder / "summary"
        self.env = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "FORETRACE_CACHE": str(folder / "cache"),
            "CI": "true",
            "FAKE": str(self.fake),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_REPOSITORY": "me/model",
            "GITHUB_RUN_ID": "7",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_WORKFLOW_REF": "me/model/.github/workflows/performance.yml@refs/heads/a@b",
        }

    def run(self, given: dict[str, str], github: dict[str, Any], only: int | None = None) -> int:
        """Execute the steps; the exit code is that of the first that fails."""
        self.said, self.uploads = "", dict[str, Path]()
        self.known: dict[str, Any] = {"inputs": {}, "github": github, "steps": {}}
        defaults = {name: each["default"] for name, each in ACTION["inputs"].items()}
        self.known["inputs"] = {
            name: self.filled(text) for name, text in {**defaults, **given}.items()
        }
        for step in STEPS[:only]:
            if "if" in step and not self.value(step["if"]):
                continue
            if "uses" in step:
                upload = {name: self.filled(str(text)) for name, text in step["with"].items()}
                self.uploads[upload["name"]] = Path(upload["path"])
            elif code := self.script(step):
                return code
        return 0

    def script(self, step: dict[str, Any]) -> int:
        output = Path(self.env["GITHUB_OUTPUT"])
        output.write_text("")
        env = {name: self.filled(str(text)) for name, text in step["env"].items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said += done.stdout
        pairs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        self.known["steps"][step.get("id", "")] = {"outputs": pairs}
        return done.returncode

    def filled(self, text: str) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(self.value(found[1])), text)

    def value(self, expression: str) -> Any:
        """What an expression of GitHub is; what is not there is empty."""

        def known(found: re.Match[str]) -> str:
            at: Any = self.known
            for name in found[0].split("."):
                at = at.get(name, "") if isinstance(at, dict) else ""
            return repr(at)

        words = re.sub(r"(?<!['\w])[a-z][\w-]*(?:\.[\w-]+)+", known, expression)
        return eval(words.replace("&&", " and ").replace("||", " or "))

    def keep(self, run: int) -> None:
        """Keep the artifact of the run that was, as that of this number."""
        shutil.copytree(self.uploads["foretrace"], self.fake / "artifacts" / str(run))


def _entry(number: int) -> HistoryEntry:
    date = f"2026-01-0{number}T00:00:00Z"
    return HistoryEntry(
        f"c{number}", date, [4e5], "no profiler", "step", 4, ["gelu and mul"], None, None, "2.13.0+cpu"
    )  # fmt: skip


PUSH = {
    "event_name": "push", "ref_name": "main", "sha": "0123456789abcdef",
    "event": {
        "repository": {"default_branch": "main"},
        "head_commit": {"timestamp": "2026-01-03T10:00:00+01:00"},
    },
}  # fmt: skip
PULL = {"event_name": "pull_request", "base_ref": "main", "event": {"pull_request": {"number": 12}}}


def test_no_script_has_a_value_written_into_it() -> None:
    assert not [step["name"] for step in STEPS if "${{" in step.get("run", "")]
    own = (ROOT / ".github/workflows/test.yml").read_text()
    used = {step["uses"] for step in STEPS if "uses" in step}
    assert all(re.search(r"@v\d+$", each) for each in used)
    assert "actions/checkout@v4" in own


@pytest.mark.sweep
@pytest.mark.torch
def test_the_workflow_of_the_page_fails_on_a_lost_fusion(tmp_path: Path) -> None:
    """Main takes a trace and makes the baseline; a pull request records and loses the fusion."""
    pytest.importorskip("torch")
    steps = WORKFLOW["jobs"]["trace"]["steps"]
    (given,) = [step["with"] for step in steps if "/foretrace@" in step.get("uses", "")]
    here = Runner(tmp_path)
    shutil.copy(RECORDED / "performance.txt", here.folder)
    shutil.copytree(RECORDED / "traces", here.folder / "traces")
    for number in (1, 2):  # two runs at a time: each lacks the other's entry; neither has a trace
        add_entry(here.fake / f"artifacts/{number}/history", _entry(number))
    (here.fake / "runs").write_text("2\n1\n3\n")
    taken = {**given, "script": "", "trace": "traces/bench.json.gz"}
    assert here.run(taken, PUSH) == 0, here.said
    assert "no baseline yet" in here.summary.read_text()
    assert not (here.fake / "comment").read_text()
    here.keep(4)
    assert len(list((here.uploads["foretrace"] / "history").iterdir())) == 3

    (here.fake / "runs").write_text("4\n2\n")
    (here.fake / "comments").write_text("99\n100\n")
    eager = (ROOT / "examples/bench.py").read_text().replace("torch.compile", "")
    (here.folder / "bench.py").write_text(eager.replace("2000", "200"))
    here.summary.write_text("")
    assert here.run(given, PULL) == 1, here.said
    summary, comment = here.summary.read_text(), (here.fake / "comment").read_text()
    assert summary.startswith("<!-- foretrace foretrace -->\n## foretrace: failed\n")
    assert "MISS    fused(gelu, mul)" in summary
    assert "**A**: baseline/bench.json.gz · CPU · 3 steps" in summary
    assert "| aten::gelu | 0 to 1 |" in summary
    assert "**FAIL**: b.ops \\> a.ops" in summary
    assert "| 01234567 | 2026-01-03 |" in summary
    assert comment.startswith(summary)
    assert comment.endswith("(https://github.com/me/model/actions/runs/7)\n")
    log = (here.fake / "log").read_text()
    assert "repos/me/model/issues/comments/99 --method PATCH" in log
    assert "--workflow performance.yml --branch=main --event push --status completed" in log
    pages = {path.name for path in here.uploads["foretrace-report"].iterdir()}
    assert pages == {"report.html", "history.html", "summary.md"}
    assert len(list((here.uploads["foretrace"] / "history").iterdir())) == 3


def test_what_others_name_is_not_run_and_ends_no_markdown(tmp_path: Path) -> None:
    """A fork's token may not comment: the summary has it all."""
    here = Runner(tmp_path)
    (here.fake / "refuses").touch()
    (here.fake / "runs").write_text("5\n")
    base = here.fake / "artifacts/5/trace"
    base.mkdir(parents=True)
    written(base, steps([5_000] * 3), "base")
    name = EVIL.replace("/", "")
    written(here.folder, steps([5_000] * 3, name=f"{EVIL}\n# h", region=EVIL), name)
    (here.folder / name).write_text(f'calls("{EVIL}") == 3\n')
    given = {
        "trace": f"{name}.json",
        "predictions": f"\n  {name}\n",
        "fail-if": "kernels > 9\nb.kernels > 0.5 * a.kernels\n",
        "base": f"-x {EVIL}\n--limit 1",
        "script": EVIL,
        "options": EVIL,
    }
    assert here.run(given, PULL) == 1, here.said
    assert not list(tmp_path.rglob("pwned"))
    assert "::warning::no comment was written" in here.said
    summary = here.summary.read_text()
    assert "**FAIL**: b.kernels \\> 0.5 \\* a.kernels" in summary
    outside = re.sub(r"^(`{3,})\n.*?^\1$", "", summary, flags=re.MULTILINE | re.DOTALL)
    assert outside.count("<!--") - outside.count("\\<!--") == 1
    assert "MISS" not in outside
    assert "@everyone" not in outside.replace("\\@everyone", "")
    assert not re.search(r"^# h", outside, re.MULTILINE)
    assert "**b**" not in outside
    assert "--branch=" in (here.fake / "log").read_text()


@pytest.mark.parametrize("name", ["a b", "a-->", "$(touch x)", "../a", ""])
def test_a_name_that_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    here = Runner(tmp_path)
    assert here.run({"name": name}, PUSH, only=1) == 2
    assert "::error::name: use letters" in here.said


def test_without_script_and_trace_it_says_so(tmp_path: Path) -> None:
    here = Runner(tmp_path)
    assert here.run({}, PUSH, only=2) == 2
    assert "::error::give script or trace" in here.said
