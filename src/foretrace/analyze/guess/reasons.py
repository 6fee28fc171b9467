"""Known reasons why a sensible prediction misses: kinds declare them, other packages add theirs."""

from __future__ import annotations

from functools import cache

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.kinds import Miss, Reason
from foretrace.base import plugins

__all__ = ["Miss", "Reason", "every", "likely"]


@cache
def every() -> tuple[Reason, ...]:
    """All reasons, each name once: those of the kinds, then those of other packages."""
    own = {reason.name: reason for kind in kinds.every() for reason in kind.reasons}
    return (*(own[name] for name in sorted(own)), *_others())


@cache
def _others() -> tuple[Reason, ...]:
    return tuple(plugins.entries(Reason, "foretrace.reasons"))


def likely(kind: kinds.GuessKind, miss: Miss) -> str:
    """The reasons that fit, as text: those of the kind, and of other packages."""
    own = sorted(kind.reasons, key=lambda reason: reason.name)
    return " ".join(reason.text for reason in (*own, *_others()) if _fits(reason, miss))


def _fits(reason: Reason, miss: Miss) -> bool:
    try:
        return reason.explains(miss)
    except Exception:  # noqa: BLE001  another package's reason must not cost the reader the verdict
        return False
