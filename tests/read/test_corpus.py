"""Every odd and broken trace behaves as its row says: verdict, notes, counts, exit code, and the
invariants.

I1 the ledger adds up; I2 no sum uses an event without a usable time; I4 the same bytes in give the
same bytes out; I7 plain, gzipped and from standard input give the same result; I8 the file is left
as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foretrace
import reference_reader
from corpus.agreement import assert_agree
from corpus.all_cases import ALL, FORMS, OPENING, often
from corpus.build import gz
from corpus.cases import ANY, G0, Case, Expect, Opened
from corpus.opening import Ran, look_json, run, without_path
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.cli.look import EVERY
from foretrace.model import opening
from foretrace.schema.ledger import CODES, Ledger
from foretrace.show.overview import reading
from foretrace.show.overview.page import Overview
from foretrace.show.render.look_page import sections
from foretrace.show.render.terminal import drawn, marked
from sweep import FULL


def ids(case: Case) -> str:
    return f"{case.id}-{case.name}"


SHOWN = [case for case in OPENING if case.id[0] in "AB" or case.id.startswith("E2")]


def put(case: Case, folder: Path) -> Path | str:
    if case.needs:
        pytest.importorskip(case.needs)
    return case.put(folder)


def fingerprint(folder: Path) -> dict[str, str]:
    """What lies in a folder, with its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "not a file"
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("case", [case for case in ALL if often(case)], ids=ids)
def test_case(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python and the command say of a file, and what its other forms give."""
    path = put(case, tmp_path)
    before = fingerprint(tmp_path)
    with monkeypatch.context() as patch:
        traces, overviews = results(patch, opening, "load"), results(patch, reading, "overview_of")
        ran = look_json(path, case, *(["--strict"] if case in OPENING else []))
        check_exit_code(case, ran)
    if case in OPENING:
        opened = Opened(traces[0], ran.doc)
        check_opened(case, opened)
        check_agreement(case, opened)
        check_page(overviews[0])
    else:
        check_error(case, path)
    if case in SHOWN:
        with monkeypatch.context() as patch:
            patch.setattr(reading, "overview_of", lambda *_, **__: overviews[0])
            check_terminal_output(path, opened)
    assert fingerprint(tmp_path) == before, "I8: reading changes no file and adds none"
    check_forms(case, ran, tmp_path)


def results(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What each call of a function returned: one command is enough to look at all that it made."""
    real, found = getattr(module, name), []

    def kept(*args: Any, **options: Any) -> Any:
        found.append(real(*args, **options))
        return found[-1]

    patch.setattr(module, name, kept)
    return found


def check_opened(case: Case, opened: Opened) -> None:
    check_ledger(opened.ledger)
    check_document(opened)
    check_counts(case.expect, opened.ledger)
    check_notes(case.expect, opened.ledger)
    if case.check is not None:
        case.check(opened)


def check_agreement(case: Case, opened: Opened) -> None:
    """The fast reader agrees with a slow one that is plain enough to be checked by eye."""
    if case.compared:
        slow = reference_reader.read(case.twin())
        assert_agree(opened, slow)
        if case.same_as is None:
            assert (opened.ledger.seen, opened.ledger.skipped) == (slow.seen, slow.skipped)


def check_ledger(ledger: Ledger) -> None:
    assert ledger.seen == ledger.kept + ledger.repaired + ledger.skipped, "I1"
    assert min(ledger.kept, ledger.repaired, ledger.skipped) >= 0
    for note in ledger.notes:
        assert note.code in CODES
        assert note.count >= 1
        assert note.text


def check_document(opened: Opened) -> None:
    """I2, and that the JSON form says what the tables say."""
    text = json.dumps(opened.doc, allow_nan=False)
    assert json.loads(text)["schema"] == 3
    ledger = opened.doc["ledger"]
    assert ledger["seen"] == ledger["kept"] + ledger["repaired"] + ledger["skipped"]
    assert {note["code"]: note["count"] for note in ledger["notes"]} == {
        n.code: n.count for n in opened.ledger.notes
    }
    timed = [k for k in opened.kernels if k["ts_ns"] is not None and k["dur_ns"] is not None]
    assert all(kernel["dur_ns"] >= 0 for kernel in timed)
    assert all(kernel["delay_ns"] is None or kernel["delay_ns"] >= 0 for kernel in opened.kernels)
    assert sum(row["total_ns"] or 0 for row in opened.doc["kernels"]) == sum(
        kernel["dur_ns"] for kernel in timed
    )
    assert opened.totals["kernels"] in (len(opened.kernels), None)


def check_counts(expect: Expect, ledger: Ledger) -> None:
    good = ledger.kept + ledger.repaired
    if expect.good is not None:
        assert good == expect.good
    if expect.seen is not None:
        assert ledger.seen == expect.seen
    if expect.verdict == "accept" and expect.good is None:
        assert ledger.skipped == 0


def check_notes(expect: Expect, ledger: Ledger) -> None:
    serious = {note.code: note.count for note in ledger.notes if note.severity != "info"}
    for code, count in expect.notes.items():
        assert serious.get(code, 0) >= 1 if count == ANY else serious.get(code, 0) == count, (
            f"{code} in {serious}"
        )
    if expect.one_of:
        assert expect.one_of & set(serious), f"one of {set(expect.one_of)} in {serious}"
    if "*" not in expect.may:
        assert set(serious) <= set(expect.notes) | expect.may, "an unexpected note"


def check_error(case: Case, path: Path | str) -> None:
    with pytest.raises((TraceError, UsageError)) as raised:
        foretrace.open(path, cache=False, limits=Limits(**case.limits))
    # A name can hold bytes that no report can carry: what is shown on failure is plain ASCII.
    expect, error = case.expect, raised.value
    message = str(error).encode("ascii", "backslashreplace").decode()
    for said in expect.says:
        assert said.lower() in message.lower(), message
    if expect.verdict == "usage":
        assert isinstance(error, UsageError)
        return
    assert isinstance(error, TraceError)
    if expect.code:
        assert error.code == expect.code, message
    if expect.offset is not None:
        assert error.offset == expect.offset
    odd = [ord(char) for char in str(error) if ord(char) < 32]
    assert odd == [], "one line, and nothing that a terminal obeys"
    assert error.hint, "the message says what to do next"


# ---- the command line
# -----------------------------------------------------------------------------------------------


def check_exit_code(case: Case, ran: Ran) -> None:
    """0 opens, 3 not a trace; never 70, never a traceback, one line on standard error.

    With `--strict` a loss is 1; the same look without it is then 0.
    """
    assert "Traceback" not in ran.err
    if case in OPENING:
        assert ran.doc["schema"] == 3
        assert ran.code == (1 if lost(ran.doc) or "left out" in ran.err else 0), ran.err
    elif case.expect.verdict == "usage":
        assert ran.code == 0, ran.err
        paths = [each["trace"]["path"] for each in ran.doc["traces"]]
        assert [path.replace("::", "/").rsplit("/", 1)[-1] for path in paths] == list(
            case.expect.says
        )
    else:
        assert ran.code == 3, ran.err
        assert ran.out == ""
        assert len(ran.err.strip().splitlines()) == 1
        assert "\x1b" not in ran.err


def check_forms(case: Case, ran: Ran, folder: Path) -> None:
    """I7: the other forms of the file give the same document or the same refusal."""
    for other in forms(case, folder):
        assert other.code == (0 if case in OPENING else ran.code), other.err
        if other.code == 0:
            assert without_path(other.doc) == without_path(ran.doc)
        else:
            assert refusal(other) == refusal(ran)


def forms(case: Case, folder: Path) -> Iterator[Ran]:
    """What plain, gzipped, and both from standard input give, without `--strict`.

    A case about files (B) has two forms in turn, and of the others every third has one, but for the
    deep sweep. What has no other form is read once more as it is.
    """
    turn = ALL.index(case)
    if not FULL and case.id[0] != "B" and turn % 3:
        return
    if case not in FORMS:
        if case in OPENING and case not in SHOWN:
            yield look_json(put(case, folder), case)
        return
    data = case.data()
    plain, packed = folder / "plain.json", folder / "packed.json.gz"
    plain.write_bytes(data)
    packed.write_bytes(gz(data, level=1))
    every = ((packed, None), ("-", data), ("-", packed.read_bytes()), (plain, None))
    some = every[turn % 2 :: 2] if case.id[0] == "B" else (every[turn // 3 % 3],)
    for path, stdin in every if FULL else some:
        yield look_json(path, case, stdin=stdin)


def refusal(ran: Ran) -> str:
    """The code of an error."""
    return ran.err[ran.err.index("[E_") : ran.err.index("]", ran.err.index("[E_"))]


def check_page(found: Overview) -> None:
    """No rule fails, and every part of the page can be drawn from whatever was kept."""
    assert [row for row in found.look.findings if row.state == "crashed"] == []
    page = sections(found, EVERY, 20)
    text = drawn(page)
    assert max(map(len, text.split("\n"))) <= 100
    assert text.replace("\n", "").isprintable()
    assert marked(page)


def lost(doc: dict[str, Any]) -> bool:
    ledger = doc["ledger"]
    return (
        ledger["repaired"] > 0
        or ledger["skipped"] > 0
        or any(n["severity"] != "info" for n in ledger["notes"])
    )


def check_terminal_output(path: Path | str, opened: Opened) -> None:
    """The human form shows no control character of the trace or of its name, and a banner where
    data was lost.
    """
    ran = run("look", os.fspath(path), "--no-cache")
    assert ran.code == 0, ran.err
    odd = {
        char
        for char in ran.out + ran.err
        if (ord(char) < 32 and char not in "\n\t") or char == "\x7f"
    }
    assert odd == set()
    for note in opened.ledger.banner:
        assert note.code in ran.out + ran.err, "a loss is shown on every output"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", ["0", "4242"])
def test_same_bytes_out(seed: str, tmp_path: Path) -> None:
    """I4: another hash seed, another process, the same bytes."""
    sample = [
        case
        for case in OPENING
        if case.id in ("A01", "A16-two", "B04", "C25", "D02", "D27", "E12", "E16")
    ]
    for case in sample:
        case_folder = tmp_path / case.id
        case_folder.mkdir()
        case.put(case_folder)
    script = (
        "import sys, io, contextlib\nfrom foretrace.cli import main\n"
        "for path in sys.argv[1:]:\n    main(['look', path, '--json', '--no-cache'])\n"
    )
    paths = [str(tmp_path / case.id / case.file) for case in sample]
    env = os.environ | {"PYTHONHASHSEED": seed}
    other = subprocess.run(
        [sys.executable, "-c", script, *paths], env=env, capture_output=True, check=True
    )
    here = "".join(look_json(path).out for path in paths)
    assert other.stdout.decode() == here


def test_shuffled_is_byte_for_byte_the_same(tmp_path: Path) -> None:
    """C25: the order of the events in the file shows nowhere, not even in the order of the rows."""
    case = next(case for case in ALL if case.id == "C25")
    path = tmp_path / "t.json"
    path.write_bytes(case.data())
    shuffled = look_json(path).out
    path.write_bytes(case.twin())
    assert shuffled == look_json(path).out


def test_folder_names_its_candidates(tmp_path: Path) -> None:
    """B42: a folder with several traces is a question, and the answer is in the message."""
    for name in ("rank0.json", "rank1.json"):
        (tmp_path / name).write_bytes(G0)
    ran = run("export", os.fspath(tmp_path), "--csv", "-", "--no-cache")
    assert ran.code == 2
    assert "rank0.json" in ran.err
    assert "rank1.json" in ran.err
    assert f"`foretrace look {tmp_path}` gives an overview" in ran.err
