"""Everyday wordings of one claim are read as that claim, by tables of `wordings.txt`."""

from __future__ import annotations

from pathlib import Path

from foretrace.analyze.guess.parsing import parsed

LINES = Path(__file__).with_name("wordings.txt").read_text(encoding="utf-8").splitlines()[1:]


def _blocks() -> dict[str, list[str]]:
    """Reading -> the sentences below it."""
    found: dict[str, list[str]] = {}
    for line in LINES:
        if line.startswith(" "):
            found[reading].append(line.strip())  # noqa: F821  a block begins with its reading
        else:
            reading = line
            found[reading] = []
    return found


def test_wordings_are_read_alike() -> None:
    wrong = []
    for reading, sentences in _blocks().items():
        for sentence in sentences:
            guess = parsed(sentence)
            said = guess.expected if guess else "refused"
            if said != reading:
                wrong.append(f"{sentence}: {said}, not {reading}")
    assert wrong == []


def test_a_capital_and_a_full_stop_change_nothing() -> None:
    for reading, [sentence, *_] in list(_blocks().items())[::4]:
        if not sentence.startswith("cuda"):  # a name keeps its letters
            guess = parsed(f"{sentence[0].upper()}{sentence[1:]}.")
            said = guess.expected if guess else "refused"
            assert said.lower() == reading.lower(), sentence
