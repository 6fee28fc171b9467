"""Prediction text of any kind: read, or refused with the word named; never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from check.conftest import TEXTS, recorded
from foretrace.base.errors import UsageError
from foretrace.check import Guess, GuessError, check, parse
from foretrace.check.guess_files import load
from foretrace.check.verdict import VERDICTS
from foretrace.check.words import split, vocabulary
from sweep import examples

WORDS = sorted({token.text for text in TEXTS for token in split(text)} | set(vocabulary()[:80]))


def _read(text: str) -> Guess | UsageError:
    try:
        return parse(text)
    except UsageError as error:
        return error


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(
    content=st.one_of(
        st.binary(max_size=80),
        st.text(max_size=80).map(lambda text: ('[[guess]]\ntext = """' + text).encode()),
    )
)
def test_any_guess_file(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        load(path)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Any text, words in any order, a sentence with a slip, or two sentences spliced."""
    one, other = draw(st.sampled_from(TEXTS)), draw(st.sampled_from(TEXTS)).split()
    place, cut = draw(st.integers(0, len(one))), draw(st.integers(0, 3))
    words = one.split()[: draw(st.integers(0, 9))] + other[draw(st.integers(0, len(other))) :]
    ways = (
        st.text(max_size=60),
        st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join),
        st.text(max_size=3).map(lambda slip: one[:place] + slip + one[place + cut :]),
        st.just(" ".join(words)),
    )
    return draw(st.one_of(*ways))


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(written())
def test_any_text(text: str) -> None:
    """Read and marked; any error must be one that a person can fix."""
    read = _read(text)
    if isinstance(read, Guess):
        [verdict] = check(recorded("mlp_eager"), [read], recorded("mlp_compiled"))
        assert verdict.verdict in VERDICTS
    elif isinstance(read, GuessError):
        assert read.word in read.text
        assert read.at <= len(read.text) + 1
        assert read.nearest or read.example or "is not valid" in str(read)
        assert not read.example or isinstance(_read(read.example), Guess)
