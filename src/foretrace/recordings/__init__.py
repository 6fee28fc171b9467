"""Traces recorded on real GPUs that ship with foretrace, to try everything without a GPU."""

from __future__ import annotations

from pathlib import Path

from foretrace.errors import UsageError


def cards() -> list[str]:
    """The cards there are recordings of."""
    return sorted(
        folder.name for folder in Path(__file__).parent.iterdir() if any(folder.glob("*.json.gz"))
    )


def folder(card: str) -> Path:
    """Where the recordings of one card lie; those of the ladder are in `ladder/`."""
    if card not in cards():
        raise UsageError(f"no recordings of {card!r}; choose from {', '.join(cards())}")
    return Path(__file__).parent / card


def traces(card: str = "h200") -> dict[str, Path]:
    """Recordings of one card by name (`mlp_eager`), in order of name."""
    return _named(folder(card))


def ladder(card: str = "h200") -> dict[str, Path]:
    """Recordings of the ladder on one card by name, in order of name."""
    return _named(folder(card) / "ladder")


def _named(place: Path) -> dict[str, Path]:
    return {path.name.removesuffix(".json.gz"): path for path in sorted(place.glob("*.json.gz"))}


def find(name: str) -> Path | None:
    """The recording of this name on any card, those of the ladder included."""
    places = [place for card in cards() for place in (folder(card), folder(card) / "ladder")]
    paths = (place / f"{name}.json.gz" for place in places)
    return next((path for path in paths if path.is_file()), None)
