"""What is wrong inside the strings of a file."""

from __future__ import annotations

from corpus.build import E3, E7, Doc, Event, Raw, complete, g0, gn
from corpus.cases import (
    G0,
    Case,
    Expect,
    Opened,
    accept,
    both,
    gpu_is_t0,
    has_event,
    is_t0,
    kernel_names,
    recover,
)

QUOTED = Raw('"a"b"')  # the raw text torch 2.13.0 writes for record_function('a"b')

FRAME = '{"device": "cpu"}(0): <module>'


def header_line(line: str) -> bytes:
    """G0 with one more header line, written as it stands."""
    return G0.replace(b'  "with_stack"', b"  " + line.encode() + b'\n  "with_stack"', 1)


def events_text(before: str, after: str) -> bytes:
    """G0 with one piece of text replaced once."""
    assert before.encode() in G0
    return G0.replace(before.encode(), after.encode("utf-8", "surrogateescape"), 1)


def frame(ts: int, name: str) -> Event:
    return complete(
        "python_function",
        Raw(f'"{name}"'),
        100,
        100,
        ts,
        10_000,
        {"Python id": ts, "Python parent id": None},
    )


def op(name: str, **fields: object) -> Event:
    """One more op, apart from all others."""
    return complete("cpu_op", name, 100, 100, 1_500_000, 1_000, {"External id": 9}) | fields


def a01_names(opened: Opened) -> None:
    # e3 is the step, so renaming it leaves no step: T0 holds for the GPU side, and `no_steps` is
    # noted.
    gpu_is_t0(opened)
    assert opened.ledger.repaired == 1
    assert opened.named('a"b')["dur_ns"] == 1_000_000
    assert [region["name"] for region in opened.doc["regions"]] == ['a"b']


def a39_names(opened: Opened) -> None:
    """Recovered or lost, but never under another name."""
    known = {
        "aten::mm",
        "cudaLaunchKernel",
        "sgemm",
        "ProfilerStep#2",
        "PyTorch Profiler (0)",
        "ac2g",
        "python",
        'a"b',
        "process_name",
        "process_labels",
        "Record Window End",
    }
    assert {event["name"] for event in opened.events} <= known
    assert opened.ledger.kept + opened.ledger.repaired >= 10
    assert opened.ledger.seen == 11


def a16_one(opened: Opened) -> None:
    assert "\ufffd" in opened.doc["kernels"][0]["name"]
    assert opened.doc["kernels"][0]["name"].startswith("k")


def a16_groups(opened: Opened) -> None:
    """Two names whose bytes differ stay two kernels, both marked."""
    names = [row["name"] for row in opened.doc["kernels"]]
    assert len(names) == len(set(names)) == 2
    assert all("\ufffd" in name for name in names)


def two_bad_names() -> Doc:
    return gn(2).edit(E7, name="k\udcff\udcfe").edit(E7 + 5, name="k\udcfe\udcff")


def minified_quote() -> bytes:
    return g0().edit(E3, name=QUOTED).bytes("minified")


RENAMED = g0().edit(E3, name='a"b').bytes()

NO_STEP = {"no_steps": 1}

CASES = [
    Case(
        "A01",
        "quote_in_annotation",
        g0().edit(E3, name=QUOTED).bytes(),
        recover(11, 11, repaired_string=1, **NO_STEP),
        a01_names,
        same_as=RENAMED,
    ),
    Case(
        "A02",
        "quote_in_python_frame",
        g0().add(frame(1_001_000, FRAME), frame(1_020_000, FRAME)).bytes(),
        recover(13, 13, repaired_string=2),
        both(is_t0, has_event(FRAME, 2)),
        same_as=g0()
        .add(
            *(
                complete("python_function", FRAME, 100, 100, ts, 10_000)
                for ts in (1_001_000, 1_020_000)
            )
        )
        .bytes(),
    ),
    Case(
        "A04",
        "metadata_slash_quote",
        header_line('"note": "a /"quoted/" word",'),
        recover(11, 11, repaired_header=1),
        same_as=G0,
    ),
    Case(
        "A05",
        "metadata_escaped_json",
        header_line('"note": {"a": "x/"y/n"},'),
        recover(11, 11, repaired_header=1),
        same_as=G0,
    ),
    Case(
        "A06",
        "metadata_not_json",
        header_line('"note": {not json,'),
        recover(11, 11, repaired_header=1),
        same_as=G0,
    ),
    Case(
        "A07",
        "metadata_bad_escape",
        header_line(r'"note": "C:\x\n",'),
        recover(11, 11, repaired_header=1),
        same_as=G0,
    ),
    Case(
        "A14",
        "nul_byte",
        events_text('"sgemm"', '"sg\0emm"'),
        accept(control_char=1),
        both(is_t0, kernel_names("sg\0emm")),
    ),
    # The same inside a key costs the field that the key names: it must not cost it in silence.
    Case(
        "A14-key",
        "nul_byte_in_key",
        events_text('"name": "sgemm"', '"na\0e": "sgemm"'),
        accept(control_char=1, name_missing=1),
        both(is_t0, kernel_names("(no name)")),
    ),
    Case(
        "A14-escape",
        "bad_escape_in_key",
        events_text('"name": "sgemm"', '"na\\qe": "sgemm"'),
        recover(11, 11, repaired_string=1, name_missing=1),
        gpu_is_t0,
        same_as=G0,
        compared=False,
    ),
    Case(
        "A15",
        "newline_in_string",
        events_text('"sgemm"', '"sg\nemm"'),
        recover(11, 11, control_char=1),
        both(is_t0, kernel_names("sg\nemm")),
    ),
    Case(
        "A16",
        "bad_utf8",
        events_text('"sgemm"', '"k\udcff\udcfe"'),
        accept(bad_utf8=1),
        both(is_t0, a16_one),
        same_as=G0,
        compared=False,
    ),
    Case(
        "A16-two",
        "bad_utf8_two_names",
        two_bad_names().bytes(),
        accept(bad_utf8=2),
        a16_groups,
        same_as=gn(2).bytes(),
        compared=False,
    ),
    Case(
        "A17",
        "utf8_cut_mid_char",
        g0().add(op("caf\u20ac")).bytes().partition("caf\u20ac".encode())[0] + b"caf\xe2\x82",
        recover(10, 11, trace_truncated=1),
        same_as=G0,
    ),
    Case(
        "A39",
        "minified_plus_quote",
        minified_quote(),
        Expect(
            "recover",
            {"no_steps": 1},
            frozenset({"repaired_string", "event_unparsable"}),
            frozenset({"repaired_string", "event_unparsable"}),
        ),
        a39_names,
        same_as=RENAMED,
        compared=False,
    ),
    Case(
        "A47",
        "slash_unicode_escapes",
        events_text('"sgemm"', r'"\u003cimg\/\u0061"'),
        accept(),
        both(is_t0, kernel_names("<img/a")),
    ),
]
