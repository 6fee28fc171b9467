"""What was not fused, as the document has it."""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.schema.compiler import Compilation
from foretrace.schema.documents.why import NotFused
from foretrace.why.ran import Ran


def not_fused(part: Compilation, graph: str, ran: Ran) -> Iterator[NotFused]:
    """Each pair of neighbours that stays apart."""
    yield from ()
