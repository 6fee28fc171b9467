"""A softmax that is neither attention nor a loss."""

from __future__ import annotations

from foretrace.model.groups._group import WorkGroup, named

GROUP = WorkGroup("softmax", 70, named("softmax", lambda work: work.role == "softmax"), weak=True)
