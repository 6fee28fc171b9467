"""What the fixes share that change how DataLoaders are made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import Session, Switch

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LoaderSwitch(Switch):
    """Gives DataLoaders other options where the script makes them; turned on before that."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.made: list[tuple[Any, int]] = []
        original = DataLoader.__init__

        def init(loader: Any, *arguments: Any, **options: Any) -> None:
            self.made.append((loader, session.line(loader)))
            if self.on:
                options |= self.options(options)
            original(loader, *arguments, **options)

        DataLoader.__init__ = init

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options to add to those given."""
        raise NotImplementedError

    def words(self) -> str:
        """The same as keywords."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options({}).items())

    def edits(self) -> list[Edit]:
        """At each place where the script makes a loader."""
        return [Edit("add", self.words(), line, "DataLoader") for _, line in self.made if line]
