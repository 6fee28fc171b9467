"""No secret of any form gets out of any place, and the copy says the same about the GPU."""

from __future__ import annotations

import gzip
import itertools
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foretrace
from corpus import build
from foretrace.show.overview import look
from foretrace.show.share.pseudonyms import Pseudonyms
from foretrace.show.share.publish import KEEP, redact, share, shared_name
from foretrace.show.share.stores import Folder
from opened_traces import open_made
from show.share import secrets
from show.share.test_redact import everything_in
from sweep import looped

# Where `--keep` lets more text through.
KEPT = (
    "region",
    "process",
    "frame",
    "value",
    "call stack",
    "module",
    "Triton's arguments",
    "name of a thread",
)


def leaks(text: str, forms: tuple[secrets.Form, ...]) -> list[str]:
    shown = text.replace(",", "")  # 5,550 is 5550
    return [
        form.name
        for form in forms
        if any(needle in text or needle in shown for needle in form.needles)
    ]


def copied(doc: build.Doc, folder: Path, keep: frozenset[str] = frozenset()) -> str:
    """The copy of a trace as text, after checking that its numbers are those of the trace."""
    trace = open_made(doc, folder)
    copy = redact(trace, folder, keep)
    assert look(foretrace.open(copy, cache=False)).totals == look(trace).totals
    return gzip.decompress(copy.read_bytes()).decode()


def test_the_forms_and_places_are_as_many_as_were_tried() -> None:
    assert len({form.name for form in secrets.FORMS}) == len(secrets.FORMS) >= 54
    assert len(secrets.PLACES) >= 41
    assert all(needle in form.text for form in secrets.FORMS for needle in form.needles)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("place", secrets.PLACES)
def test_no_secret_gets_out_of(place: str, tmp_path: Path) -> None:
    """Of 54 forms of secrets in 41 places 247 of 702 got out."""
    doc = secrets.PLACES[place]([form.text for form in secrets.FORMS])
    assert leaks(copied(doc, tmp_path), secrets.FORMS) == []


@pytest.mark.parametrize("place", KEPT)
def test_a_key_goes_whatever_is_kept(place: str, tmp_path: Path) -> None:
    doc = secrets.PLACES[place]([form.text for form in secrets.KEYS])
    assert leaks(copied(doc, tmp_path, frozenset(KEEP)), secrets.KEYS) == []


def test_none_is_in_the_report_the_index_or_a_name(tmp_path: Path) -> None:
    """All places at once, through the whole command: bytes, base64, gzip and file names."""
    docs = [place([form.text for form in secrets.FORMS]) for place in secrets.PLACES.values()]
    events = list(itertools.chain.from_iterable(doc.events for doc in docs))
    header = {key: value for doc in docs for key, value in doc.header.items()}
    source = tmp_path / "source"
    source.mkdir()
    name = f"run_{secrets.KEYS[0].text}.json"
    (source / name).write_bytes(build.Doc(events, header, {}).bytes())
    [shared] = share(str(source), Folder(tmp_path / "out"))
    assert leaks(everything_in(tmp_path / "out"), secrets.FORMS) == []
    assert leaks("\n".join(shared.regions), secrets.FORMS) == []
    assert {"key", "path", "address", "name", "word", "header", "frame", "value"} <= set(
        shared.removed
    )


@looped(
    "form",
    [form for form in secrets.FORMS if "/" not in form.text],
    ids=lambda form: form.name,
)
def test_none_is_in_the_name_of_a_copy(form: secrets.Form) -> None:
    name = shared_name(f"/data/{form.text}.pt.trace.json.gz", Pseudonyms(secrets.NAMES))
    assert leaks(name, (form,)) == []


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
    shown = Pseudonyms().clean(name.format(token))
    parts = {token[at : at + 8] for at in range(len(token) - 7)}
    assert not [part for part in parts if part in shown]


def test_one_text_has_one_pseudonym_in_all_traces_of_a_run(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    path = "/home/dora/run.py"
    for number in range(2):
        region = build.complete(
            "user_annotation", f"at {path}", 100, 100, 1_010_000, 900_000 + number
        )
        doc = build.g0().add(region)
        (source / f"{number}.json").write_bytes(doc.bytes())
    first, second = share(str(source), Folder(tmp_path / "out"))
    again, _ = share(str(source), Folder(tmp_path / "again"))
    [[one], [other], [later]] = (
        [name for name in each.regions if name.startswith("path_")]
        for each in (first, second, again)
    )
    assert one == other != later
