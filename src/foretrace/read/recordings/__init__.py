"""Traces recorded on real GPUs that ship with foretrace, to try everything without a GPU.

`tries/tried.json` is what `foretrace try --json` printed about a training script.
"""

from __future__ import annotations

import os
from pathlib import Path

from foretrace.base.errors import TraceError, UsageError

# recordings of the ladder that are shown most
SHORT = {
    "llama": "model_llama_4x512x4x768x12x3072x32000_bf16",
    "llama_compiled": "model_compiled_4x512x4x768x12x3072x32000_bf16",
}


def cards() -> list[str]:
    """The cards there are recordings of."""
    return sorted(
        folder.name for folder in Path(__file__).parent.iterdir() if any(folder.glob("*.json.gz"))
    )


def folder(card: str) -> Path:
    """Where the recordings of one card lie; those of the ladder are in `ladder/`.

    Those of a model that generates a token are in `decode/`, those with compiler logs in `why/`,
    snapshots of the allocator, and a trace with memory events, in `memory/`.
    """
    if card not in cards():
        raise UsageError(f"no recordings of {card!r}; choose from {', '.join(cards())}")
    return Path(__file__).parent / card


def traces(card: str = "h200") -> dict[str, Path]:
    """Recordings of one card by name (`mlp_eager`), in order of name."""
    return _named(folder(card))


def ladder(card: str = "h200") -> dict[str, Path]:
    """Recordings of the ladder on one card by name, in order of name."""
    return _named(folder(card) / "ladder")


def decoding(card: str = "h200") -> dict[str, Path]:
    """Recordings of a model that generates one token, eager and in CUDA graphs."""
    return _named(folder(card) / "decode")


def explained(card: str = "h200") -> dict[str, Path]:
    """Recordings of torch.compile with the compiler's logs beside them, for `foretrace why`."""
    return _named(folder(card) / "why")


def snapshots(card: str = "h200") -> dict[str, Path]:
    """Snapshots of the allocator, for `foretrace memory`."""
    return _named(folder(card) / "memory", ".pickle.xz")


def tries() -> dict[str, Path]:
    """Results of `foretrace try` by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "tries").glob("*.json"))}


def shapes_run(rung: str, card: str) -> Path:
    """What `foretrace lab shapes RUNG --json` printed on one card."""
    place = folder(card) / "shapes"
    if not (path := place / f"{rung}.json").exists():
        there = ", ".join(_named(place, ".json"))
        raise UsageError(f"no run of {rung!r} was recorded on {card}; choose from {there}")
    return path


def _named(place: Path, end: str = ".json.gz") -> dict[str, Path]:
    return {path.name.removesuffix(end): path for path in sorted(place.glob(f"*{end}"))}


def find(name: str) -> Path | None:
    """The recording of this name on any card."""
    return _every().get(name)


def opened_as(text: str) -> str:
    """The path that a command opens: a file or folder of this name, else the recording of it.

    A name that is neither, but almost that of a recording, raises `TraceError` with the nearest.
    """
    word = text.replace("-", "_").replace(".", "_")
    if not word.isidentifier() or os.path.exists(text):
        return text
    if found := find(text):
        return str(found)
    from difflib import get_close_matches

    stem = text.removesuffix(".gz").removesuffix(".json")
    near = get_close_matches(stem, _every(), n=1, cutoff=0.75)
    if near and not any(Path().glob(f"{text}*")):  # `why` takes the start of several file names
        hint = f"did you mean {near[0]}? `foretrace look --list` lists the names"
        raise TraceError("E_UNREADABLE", text, "no such file, and no such recording", hint=hint)
    return text


def typed_as(path: str) -> str:
    """What to type for a path: the name of a recording, or the path itself."""
    name = Path(path).name.removesuffix(".json.gz")
    return name if str(find(name)) == path else path


def _every() -> dict[str, Path]:
    found = tries()
    for card in cards():
        traced = traces(card) | ladder(card) | decoding(card) | explained(card)
        found = traced | snapshots(card) | _named(folder(card) / "memory") | found
    return found | {short: found[name] for short, name in SHORT.items() if name in found}
