"""`KernelTraces`, the fixture: makes blocks, judges what a test says of them, and remembers it for
the report.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.pytest_plugin.block import Block

if TYPE_CHECKING:
    from foretrace.schema.verdict import Verdict

JUDGED = ("max_kernels", "no_sync", "guess")


class KernelTraces:
    """`kernel_trace(...)` makes a block to record, `kernel_trace("trace.json.gz")` one from a file."""

    def __init__(self, item: pytest.Item, folder: Path) -> None:
        self.item, self.folder = item, folder
        self.blocks: list[Block] = []
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
    ) -> Block:
        """A block of `steps` recorded rounds after `warmup` others; `shapes` records those of all
        operands.
        """
        path = self.folder / f"block{len(self.blocks)}.json.gz" if source is None else Path(source)
        block = Block(self, path, warmup=warmup, steps=steps, shapes=shapes)
        if source is not None:
            _ = block.trace  # a file that is no trace fails here, by name
        self.blocks.append(block)
        return block

    def judge(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Remember the verdicts; fail on a miss, and on an unknown do what the settings say."""
        from foretrace.render.verdicts import verdicts_text

        __tracebackhide__ = True
        self.verdicts += verdicts
        policy = option(self.item.config, "unknown")
        failing = ("miss", "unknown") if policy == "fail" else ("miss",)
        failed = [verdict for verdict in verdicts if verdict.verdict in failing]
        if failed:
            raise AssertionError(verdicts_text(failed))
        unknown = next((verdict for verdict in verdicts if verdict.verdict == "unknown"), None)
        if unknown is not None and policy == "skip":
            pytest.skip(f"unknown: {unknown.text}: {unknown.why}")
        return verdicts

    def judge_marks(self) -> None:
        """What `max_kernels`, `no_sync` and `guess` say, on every block of the test."""
        from foretrace.guess import check, parse

        __tracebackhide__ = True
        said = [
            (text, str(mark.kwargs.get("reason", "")))
            for mark in self.item.iter_markers()
            for text in mark_texts(mark)
        ]
        if said and not self.blocks:
            raise AssertionError(
                f"{said[0][0]}: the test recorded nothing; write `with kernel_trace() as t:`"
            )
        for block in self.blocks if said else []:
            # A file without steps is judged as a whole.
            everywhere = "" if block.trace.has("steps") else "per step: "
            self.judge(
                check(
                    block.trace,
                    [parse(text.removeprefix(everywhere), reason) for text, reason in said],
                )
            )

    def compare(self, block: Block, name: str) -> None:
        """The snapshot of one block: written, the same, changed, missing, or of other machines
        only.
        """
        from foretrace.guess.shelf import Shelf
        from foretrace.guess.snapshot import difference
        from foretrace.guess.view import Unknown

        __tracebackhide__ = True
        test = self.item.nodeid.split("::", 1)[-1] + (f".{name}" if name else "")
        folder = self.item.path.parent / option(self.item.config, "snapshots") / self.item.path.stem
        shelf = Shelf(folder, test, block.trace, block.torch_version)
        try:
            kernels = block.kernels
        except Unknown as gap:
            raise AssertionError(f"no snapshot can be taken: {gap}") from None
        if option(self.item.config, "update") or not (
            shelf.path.exists() or shelf.others() or _in_ci()
        ):
            self.snapshots.append(f"written {shelf.write(kernels)}")
        elif shelf.path.exists():
            found = difference(shelf.read(), kernels)
            self.snapshots.append("changed" if found else "same")
            if found:
                self.changes += [f"{shelf.path.name}:", *found.lines()]
                raise AssertionError(
                    "\n".join(
                        [
                            f"the kernels are not those of {shelf.path}",
                            *found.lines(),
                            "--foretrace-update writes it anew",
                        ]
                    )
                )
        elif shelf.others():
            self.snapshots.append("skipped")
            pytest.skip(
                f"no kernel snapshot for {shelf.key}; there are {', '.join(shelf.others())} "
                "(--foretrace-update writes this one)"
            )
        else:
            self.snapshots.append("missing")
            raise AssertionError(
                f"no kernel snapshot {shelf.path}: run once with --foretrace-update, and commit it"
            )

    def keep(self) -> list[str]:
        """Copy the traces of a failed test to where they stay; returns the paths."""
        from foretrace.guess.shelf import file_stem

        recorded = [
            block.path
            for block in self.blocks
            if block.path.parent == self.folder and block.path.exists()
        ]
        folder = self.item.config.rootpath / option(self.item.config, "keep")
        stem = file_stem(self.item.nodeid.replace("/", "."))
        kept = []
        for number, path in enumerate(recorded):
            folder.mkdir(parents=True, exist_ok=True)
            kept.append(folder / f"{stem}{f'-{number}' if number else ''}.json.gz")
            shutil.copyfile(path, kept[-1])
        return [str(path) for path in kept]

    def summary(self, kept: list[str]) -> dict[str, Any]:
        """What the terminal summary needs, as plain data: xdist carries it from worker to
        controller.
        """
        return {
            "test": self.item.nodeid,
            "blocks": len(self.blocks),
            "kept": kept,
            "snapshots": list(self.snapshots),
            "verdicts": dict(Counter(verdict.verdict for verdict in self.verdicts)),
            "unknown": [
                f"{verdict.text}: {verdict.why}"
                for verdict in self.verdicts
                if verdict.verdict == "unknown"
            ],
        }

    def section(self, kept: list[str]) -> str:
        """The section of a failure report: every verdict, what changed, and where the trace is."""
        from foretrace.render.verdicts import verdicts_text

        parts = [
            verdicts_text(self.verdicts) if self.verdicts else "",
            "\n".join(self.changes),
            "\n".join(f"the trace is kept in {path}" for path in kept),
        ]
        return "\n\n".join(part for part in parts if part)


def mark_texts(mark: pytest.Mark) -> list[str]:
    """The predictions that a mark stands for."""
    if mark.name == "max_kernels":
        return [
            f"per step: kernels <= {mark.args[0] if mark.args else mark.kwargs.get('count', '')}"
        ]
    if mark.name == "no_sync":
        return ["per step: sync == 0"]
    return [str(text) for text in mark.args] if mark.name == "guess" else []


def option(config: pytest.Config, name: str) -> Any:
    """The command line first, the ini file second."""
    given = config.getoption(f"foretrace_{name}", None)
    return config.getini(f"foretrace_{name}") if given is None else given


def _in_ci() -> bool:
    return any(
        os.environ.get(name) not in (None, "", "0", "false") for name in ("CI", "BUILD_NUMBER")
    )
