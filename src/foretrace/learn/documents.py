"""Every `--json` answer by name, for `docs schema` and `explain`.

A module declares `DOCUMENTS`: by its name, the Struct at the top of each answer. The lines of its
docstring say, in this order, which command gives it.
"""

from __future__ import annotations

import msgspec

from foretrace import memory
from foretrace.check import documents as check
from foretrace.compare import documents as compare
from foretrace.compare import forecast, history, tries
from foretrace.compare import jobs as compared_jobs
from foretrace.jobs import documents as job
from foretrace.learn import explained
from foretrace.learn.lessons import documents as lesson
from foretrace.look import documents as look
from foretrace.memory import changes as memory_changes
from foretrace.memory import oom
from foretrace.read import tried
from foretrace.record import lab_documents as lab
from foretrace.why import documents as why
from foretrace.work.gemms import documents as gemms

_MODULES = (
    *(check, compare, compared_jobs, explained, forecast, gemms, history, job, lab, lesson, look),
    *(memory, memory_changes, oom, tried, tries, why),
)


def every() -> dict[str, tuple[type[msgspec.Struct], str]]:
    """The Struct of each document by name, and the command that gives it."""
    declared = {
        name: (document, text)
        for module in _MODULES
        for (name, document), text in zip(
            module.DOCUMENTS.items(), (module.__doc__ or "").splitlines(), strict=False
        )
    }
    return dict(sorted(declared.items()))
