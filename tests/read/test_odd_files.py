"""Every odd file behaves as its case says: verdict, notes, counts, exit code, and what holds for all:

the ledger adds up; no sum uses an event without a usable time; the same bytes in give the same
bytes out; plain, gzipped and from standard input give the same; the file is left as it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretrace
import reference_reader
from corpus.agreement import assert_agree
from corpus.build import gz
from corpus.cases import ANY, G0, Case, Expect, Opened
from corpus.odd_files import ALL, OPENING
from corpus.opening import Ran, look_json, run, without_path
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.base.tables import marked
from foretrace.base.tables import text as drawn
from foretrace.cli.look import EVERY
from foretrace.look import reading
from foretrace.look.documents import Overview
from foretrace.look.lines import sections
from foretrace.read.ledger import CODES, Ledger
from foretrace.trace import opening
from sweep import FULL

FORMS = ("A01", "A06", "A20", "A42", "B04", "B48", "C18", "D27")  # all in the full sweep
PRINTED = ("A02", "A14", "A16", "B19", "B48", "E20")


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name.replace(" ", "-"))
def test_case(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python and the command say of a file, and what its other forms give."""
    if case.needs:
        pytest.importorskip(case.needs)
    path = case.put(tmp_path)
    before = contents(tmp_path)
    with monkeypatch.context() as patch:
        traces, overviews = results(patch, opening, "load"), results(patch, reading, "overview_of")
        ran = look_json(path, case, *(["--strict"] if case in OPENING else []))
    check_exit_code(case, ran)
    if case in OPENING:
        opened = Opened(traces[0], ran.doc)
        check_opened(case, opened)
        check_page(overviews[0])
        if FULL or case.id in PRINTED:
            check_terminal_output(path, opened)
    else:
        check_error(case, path)
    assert contents(tmp_path) == before, "reading changes no file and adds none"
    if (FULL and case.place is None) or case.id in FORMS:
        check_forms(case, ran, tmp_path)


def contents(folder: Path) -> dict[str, bytes | None]:
    paths = sorted(folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def results(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What each call of a function returned: one command is enough to look at all that it made."""
    real, returned = getattr(module, name), []

    def watched(*args: Any, **options: Any) -> Any:
        returned.append(real(*args, **options))
        return returned[-1]

    patch.setattr(module, name, watched)
    return returned


def check_opened(case: Case, opened: Opened) -> None:
    check_ledger(opened.ledger)
    check_document(opened)
    check_notes(case.expect, opened.ledger)
    if case.check is not None:
        case.check(opened)
    if case.compared:  # with a slow reader that is plain enough to be checked by eye
        slow = reference_reader.read(case.twin())
        assert_agree(opened, slow)
        if case.same_as is None:
            assert (opened.ledger.seen, opened.ledger.skipped) == (slow.seen, slow.skipped)


def check_ledger(ledger: Ledger) -> None:
    assert ledger.seen == ledger.kept + ledger.repaired + ledger.skipped
    assert min(ledger.kept, ledger.repaired, ledger.skipped) >= 0
    assert all(note.code in CODES and note.count >= 1 and note.text for note in ledger.notes)


def check_document(opened: Opened) -> None:
    """No time without a usable time, and the JSON form says what the tables say."""
    json.dumps(opened.doc, allow_nan=False)
    ledger = opened.doc["ledger"]
    assert ledger["seen"] == ledger["kept"] + ledger["repaired"] + ledger["skipped"]
    counts = {note["code"]: note["count"] for note in ledger["notes"]}
    assert counts == {note.code: note.count for note in opened.ledger.notes}
    timed = [k for k in opened.kernels if k["ts_ns"] is not None and k["dur_ns"] is not None]
    assert all(kernel["dur_ns"] >= 0 for kernel in timed)
    assert all(kernel["delay_ns"] is None or kernel["delay_ns"] >= 0 for kernel in opened.kernels)
    total = sum(row["total_ns"] or 0 for row in opened.doc["kernels"])
    assert total == sum(kernel["dur_ns"] for kernel in timed)
    assert opened.totals["kernels"] in (len(opened.kernels), None)


def check_notes(expect: Expect, ledger: Ledger) -> None:
    assert expect.good in (None, ledger.kept + ledger.repaired)
    assert expect.seen in (None, ledger.seen)
    if expect.verdict == "accept" and expect.good is None:
        assert ledger.skipped == 0
    serious = {note.code: note.count for note in ledger.notes if note.severity != "info"}
    for code, count in expect.notes.items():
        right = code in serious if count == ANY else serious.get(code, 0) == count
        assert right, f"{code} in {serious}"
    if "*" not in expect.may:
        assert set(serious) <= set(expect.notes) | expect.may, "an unexpected note"


def check_page(overview: Overview) -> None:
    """No rule fails, and every part of the page can be drawn from whatever was kept."""
    assert [row for row in overview.look.findings if row.state == "crashed"] == []
    page = sections(overview, EVERY, 20)
    text = drawn(page)
    assert max(map(len, text.split("\n"))) <= 100
    assert text.replace("\n", "").isprintable()
    assert marked(page)


def check_terminal_output(path: Path | str, opened: Opened) -> None:
    """No control character of the trace or of its name, and a banner where data was lost."""
    ran = run("look", os.fspath(path), "--no-cache")
    assert ran.code == 0, ran.err
    said = ran.out + ran.err
    assert [
        char for char in said if (ord(char) < 32 and char not in "\n\t") or char == "\x7f"
    ] == []
    for note in opened.ledger.banner:
        assert note.code in said, "a loss is shown on every output"


def check_error(case: Case, path: Path | str) -> None:
    with pytest.raises((TraceError, UsageError)) as raised:
        foretrace.open(path, cache=False, limits=Limits(**case.limits))
    # a name can hold bytes that no report can carry: what is shown on failure is plain ASCII
    expect, error = case.expect, raised.value
    message = str(error).encode("ascii", "backslashreplace").decode()
    for said in expect.says:
        assert said.lower() in message.lower(), message
    if expect.verdict == "usage":
        assert isinstance(error, UsageError)
        return
    assert isinstance(error, TraceError)
    assert expect.code in ("", error.code), message
    assert [char for char in str(error) if ord(char) < 32] == [], "one line for a terminal"
    assert error.hint, "the message says what to do next"


def check_exit_code(case: Case, ran: Ran) -> None:
    """0 opens (with `--strict` a loss is 1), 3 not a trace; never 70, one line on standard error."""
    assert "Traceback" not in ran.err
    if case in OPENING:
        ledger = ran.doc["ledger"]
        lost = ledger["repaired"] + ledger["skipped"] > 0
        lost = lost or any(note["severity"] != "info" for note in ledger["notes"])
        assert ran.code == (1 if lost or "left out" in ran.err else 0), ran.err
    elif case.expect.verdict == "usage":
        assert ran.code == 0, ran.err
        paths = [each["trace"]["path"].replace("::", "/") for each in ran.doc["traces"]]
        assert tuple(path.rsplit("/", 1)[-1] for path in paths) == case.expect.says
    else:
        pickled = case.expect.code == "E_PICKLE"  # refused at the door, for foretrace memory
        assert (ran.code, ran.out) == (2 if pickled else 3, ""), ran.err
        assert len(ran.err.strip().splitlines()) == 1
        assert "\x1b" not in ran.err


def check_forms(case: Case, ran: Ran, folder: Path) -> None:
    """Gzipped, and both from standard input: the same document or the same refusal."""
    data = case.data()
    packed = folder / "packed.json.gz"
    packed.write_bytes(gz(data, level=1))
    text = data.lstrip()[:1] in (b"{", b"[", b"\xff", b"\xef")
    for path, stdin in ((packed, None), ("-", data), ("-", packed.read_bytes())) if text else ():
        other = look_json(path, case, stdin=stdin)
        assert other.code == (0 if case in OPENING else ran.code), other.err
        if other.code == 0:
            assert without_path(other.doc) == without_path(ran.doc)
        else:
            assert other.err.rpartition("[E_")[2][:5] == ran.err.rpartition("[E_")[2][:5]


def test_same_bytes_out(tmp_path: Path) -> None:
    """Another hash seed, another process, the same bytes; as is a shuffled file."""
    paths = []
    for case in (case for case in OPENING if case.id in ("A16", "B04", "C25", "D02", "D27", "E16")):
        (tmp_path / case.id).mkdir()
        paths.append(str(case.put(tmp_path / case.id)))
    script = (
        "import sys\nfrom foretrace.cli import main\n"
        "for path in sys.argv[1:]:\n    main(['look', path, '--json', '--no-cache'])\n"
    )
    command = [sys.executable, "-c", script, *paths]
    env = os.environ | {"PYTHONHASHSEED": "4242"}
    other = subprocess.run(command, env=env, capture_output=True, check=True)
    here = [look_json(path).out for path in paths]
    assert other.stdout.decode() == "".join(here)
    unsorted = next(case for case in OPENING if case.id == "C25")
    (tmp_path / "C25" / unsorted.file).write_bytes(unsorted.twin())
    assert look_json(tmp_path / "C25" / unsorted.file).out in here


def test_a_folder_names_its_candidates(tmp_path: Path) -> None:
    """A folder with several traces is a question, and the answer is in the message."""
    for name in ("rank0.json", "rank1.json"):
        (tmp_path / name).write_bytes(G0)
    ran = run("export", str(tmp_path), "--to", "csv", "--no-cache")
    assert ran.code == 2
    assert "rank0.json" in ran.err
    assert "rank1.json" in ran.err
    assert f"`foretrace look {tmp_path}` gives an overview" in ran.err
