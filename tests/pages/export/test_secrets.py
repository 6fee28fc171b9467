"""No secret of any form gets out of any place, and the copy says the same about the GPU."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretrace
from corpus import build
from foretrace.look import look
from foretrace.pages.export.allowed import KEEP, AllowList
from foretrace.pages.export.publish import Folder, copies, redact
from opened_traces import open_made
from pages.export import secrets
from pages.export.test_redact import everything_in

# Where `--keep` lets more text through.
KEPT = ("region", "frame", "value", "call stack", "module", "Triton's arguments")


def leaks(text: str, forms: tuple[secrets.Form, ...]) -> list[str]:
    shown = text.replace(",", "")  # 5,550 is 5550
    return [
        form.name
        for form in forms
        if any(needle in text or needle in shown for needle in form.needles)
    ]


def copied(doc: build.Doc, folder: Path, keep: frozenset[str] = frozenset()) -> str:
    """The copy of a trace as text, after checking that its numbers are those of the trace."""
    trace, out = open_made(doc, folder), folder / "out"
    out.mkdir()
    copy = redact(trace, out, AllowList(keep))
    assert look(foretrace.open(copy, cache=False)).totals == look(trace).totals
    return everything_in(out)


def test_the_secrets_are_as_many_as_were_tried() -> None:
    assert len({form.name for form in secrets.FORMS}) == len(secrets.FORMS)
    assert len(secrets.FORMS) * len(secrets.PLACES) >= 2_255
    assert all(needle in form.text for form in secrets.FORMS for needle in form.needles)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("place", secrets.PLACES)
def test_no_secret_gets_out_of(place: str, tmp_path: Path) -> None:
    doc = secrets.PLACES[place]([form.text for form in secrets.FORMS])
    assert leaks(copied(doc, tmp_path), secrets.FORMS) == []


def test_none_gets_out_of_all_places_at_once(tmp_path: Path) -> None:
    """Through the command's own way, file names too."""
    docs = [place([form.text for form in secrets.FORMS]) for place in secrets.PLACES.values()]
    events = [event for doc in docs for event in doc.events]
    header = {key: value for doc in docs for key, value in doc.header.items()}
    source = tmp_path / "source"
    source.mkdir()
    (source / f"run_{secrets.KEYS[0].text}.json").write_bytes(build.Doc(events, header, {}).bytes())
    [shared] = copies(str(source), Folder(tmp_path / "out"))
    assert leaks(everything_in(tmp_path / "out"), secrets.FORMS) == []
    assert leaks("\n".join(shared.regions), secrets.FORMS) == []
    assert shared.hashed > 1_000


@pytest.mark.parametrize("place", KEPT)
def test_a_key_goes_whatever_is_kept(place: str, tmp_path: Path) -> None:
    doc = secrets.PLACES[place]([form.text for form in secrets.KEYS])
    assert leaks(copied(doc, tmp_path, frozenset(KEEP)), secrets.KEYS) == []


def _token(alphabet: str) -> st.SearchStrategy[str]:
    """A random token as a service makes one: not what Hypothesis likes to try first."""
    return st.builds(
        lambda seed, count: "".join(random.Random(seed).choices(alphabet, k=count)),
        st.integers(0, 2**64),
        st.integers(20, 64),
    )


@given(
    _token(string.ascii_letters + string.digits) | _token("0123456789abcdef"),
    st.sampled_from(["run_{}", "{}", "{}_v2", "load {} now", "aten::{}", "void k<{}>(int)"]),
)
def test_a_random_token_of_no_known_form_goes(token: str, name: str) -> None:
    shown = AllowList().name(name.format(token))
    parts = {token[at : at + 8] for at in range(len(token) - 7)}
    assert not [part for part in parts if part in shown]
