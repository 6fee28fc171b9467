"""`KernelTraces`, the fixture: makes blocks, judges them, remembers the verdicts for the report."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.base.notices import in_ci
from foretrace.record.pytest_plugin.block import RecordedBlock

if TYPE_CHECKING:
    from foretrace.analyze.guess.snapshots import SnapshotFile
    from foretrace.schema.finding import Verdict

JUDGED = ("max_kernels", "no_sync", "guess")


class KernelTraces:
    """`kernel_trace(...)` makes a block to record, `kernel_trace("trace.json.gz")` opens a file."""

    def __init__(self, item: pytest.Item, folder: Path) -> None:
        self.item, self.folder, self.config = item, folder, item.config
        self.blocks: list[RecordedBlock] = []
        self.verdicts: list[Verdict] = []
        self.snapshots: list[str] = []
        self.changes: list[str] = []

    def __call__(
        self,
        source: str | os.PathLike[str] | None = None,
        *,
        warmup: int = 0,
        steps: int = 1,
        shapes: bool = True,
        why: bool | None = None,
    ) -> RecordedBlock:
        """A block that records `steps` rounds after `warmup` others, with input `shapes`.

        `why` keeps the compiler's records, by default where a mark of the test needs them.
        """
        path = self.folder / f"block{len(self.blocks)}.json.gz" if source is None else Path(source)
        keep = self._need_records() if why is None and source is None else bool(why)
        block = RecordedBlock(self, path, warmup=warmup, steps=steps, shapes=shapes, why=keep)
        if source is not None:
            _ = block.trace  # a file that is not a trace fails here, by name
        self.blocks.append(block)
        return block

    def _need_records(self) -> bool:
        """Whether a mark has a prediction that the compiler's records decide."""
        texts = [text for mark in self.item.iter_markers("guess") for text in _texts(mark)]
        if not texts:
            return False
        from foretrace.analyze.guess.marking import Guess, parse_or_error

        guesses = [parse_or_error(text) for text in texts]
        return any(isinstance(each, Guess) and each.kind.records for each in guesses)

    def judge(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Remember the verdicts; fail on a miss, and on an unknown do what the settings say."""
        from foretrace.show.render.verdicts import verdicts_text

        __tracebackhide__ = True
        self.verdicts += verdicts
        policy = option(self.config, "unknown") or ("fail" if in_ci() else "report")
        failing = ("error", "miss", "unknown") if policy == "fail" else ("error", "miss")
        failed = [verdict for verdict in verdicts if verdict.verdict in failing]
        if failed:
            raise AssertionError(verdicts_text(failed))
        unknown = next((verdict for verdict in verdicts if verdict.verdict == "unknown"), None)
        if unknown is not None and policy == "skip":
            pytest.skip(f"unknown: {unknown.text}: {unknown.why}")
        return verdicts

    def judge_marks(self) -> None:
        """Judge `max_kernels`, `no_sync` and `guess` on every block of the test."""
        from foretrace.analyze.guess import check
        from foretrace.analyze.guess.marking import parse_or_error

        __tracebackhide__ = True
        marks = list(self.item.iter_markers())
        said = [(text, mark.kwargs.get("reason", "")) for mark in marks for text in _texts(mark)]
        if said and not self.blocks:
            raise AssertionError(
                f"{said[0][0]}: the test recorded nothing; write `with kernel_trace() as t:`"
            )
        for block in self.blocks if said else []:
            # A file without steps is judged as a whole.
            prefix = "" if block.trace.has("steps") else "per step: "
            guesses = [
                parse_or_error(text.removeprefix(prefix), str(reason)) for text, reason in said
            ]
            self.judge(check(block.trace, guesses))

    def compare(self, block: RecordedBlock, name: str) -> None:
        """Compare a block with its snapshot, or write the snapshot when there is none."""
        from foretrace.analyze.guess.snapshots import SnapshotFile
        from foretrace.analyze.guess.windows import Unknown

        __tracebackhide__ = True
        test = self.item.nodeid.split("::", 1)[-1] + (f".{name}" if name else "")
        folder = self.item.path.parent / option(self.config, "snapshots") / self.item.path.stem
        file = SnapshotFile(folder, test, block.trace, block.torch_version)
        try:
            kernels = block.kernels
        except Unknown as missing:
            raise AssertionError(f"no snapshot: {missing}") from None
        known = file.path.exists() or file.others() or in_ci()
        if option(self.config, "update") or not known:
            self.snapshots.append(f"written {file.write(kernels)}")
        elif file.path.exists():
            self._compare(file, kernels)
        elif file.others():
            self.snapshots.append("skipped")
            pytest.skip(
                f"no kernel snapshot for {file.key}; found {', '.join(file.others())} "
                "(--foretrace-update writes this one)"
            )
        else:
            self.snapshots.append("missing")
            raise AssertionError(
                f"no kernel snapshot {file.path}: run once with --foretrace-update, and commit it"
            )

    def _compare(self, file: SnapshotFile, kernels: Counter[str]) -> None:
        from foretrace.analyze.guess.snapshots import difference

        __tracebackhide__ = True
        found = difference(file.read(), kernels)
        self.snapshots.append("changed" if found else "same")
        if found:
            lines = found.lines()
            self.changes += [f"{file.path.name}:", *lines]
            head = f"the kernels differ from {file.path}"
            raise AssertionError("\n".join([head, *lines, "--foretrace-update writes it again"]))

    def keep(self) -> list[str]:
        """Copy the traces of a failed test to the folder that keeps them; returns the paths."""
        from foretrace.analyze.guess.snapshots import file_stem

        paths = [block.path for block in self.blocks]
        recorded = [path for path in paths if path.parent == self.folder and path.exists()]
        folder = self.config.rootpath / option(self.config, "keep")
        stem = file_stem(self.item.nodeid.replace("/", "."))
        kept = []
        for number, path in enumerate(recorded):
            folder.mkdir(parents=True, exist_ok=True)
            kept.append(folder / f"{stem}{f'-{number}' if number else ''}.json.gz")
            shutil.copyfile(path, kept[-1])
            records = path.with_name(path.name.removesuffix(".json.gz") + ".why")
            if records.is_dir():
                beside = kept[-1].name.removesuffix(".json.gz") + ".why"
                shutil.copytree(records, kept[-1].with_name(beside), dirs_exist_ok=True)
        return [str(path) for path in kept]

    def summary(self, kept: list[str]) -> dict[str, Any]:
        """The data of the terminal summary, plain: xdist sends it from worker to controller."""
        unknown = [verdict for verdict in self.verdicts if verdict.verdict == "unknown"]
        return {
            "test": self.item.nodeid,
            "blocks": len(self.blocks),
            "kept": kept,
            "snapshots": list(self.snapshots),
            "verdicts": dict(Counter(verdict.verdict for verdict in self.verdicts)),
            "unknown": [f"{verdict.text}: {verdict.why}" for verdict in unknown],
        }

    def section(self, kept: list[str]) -> str:
        """The section of a failure report: every verdict, what changed, and where the trace is."""
        from foretrace.show.render.verdicts import verdicts_text

        parts = [
            verdicts_text(self.verdicts) if self.verdicts else "",
            "\n".join(self.changes),
            "\n".join(f"the trace is kept in {path}" for path in kept),
        ]
        return "\n\n".join(part for part in parts if part)


def _texts(mark: pytest.Mark) -> list[str]:
    """The predictions that a mark stands for."""
    if mark.name == "max_kernels":
        most = mark.args[0] if mark.args else mark.kwargs.get("count", "")
        return [f"per step: kernels <= {most}"]
    if mark.name == "no_sync":
        return ["per step: sync == 0"]
    return [str(text) for text in mark.args] if mark.name == "guess" else []


def option(config: pytest.Config, name: str) -> Any:
    """The command line first, the ini file second."""
    given = config.getoption(f"foretrace_{name}", None)
    return config.getini(f"foretrace_{name}") if given is None else given
