"""A: what is wrong inside the text of the file."""

from __future__ import annotations

import json

from corpus.build import E3, E4, E6, E7, Doc, Event, Raw, complete, g0, gn, us
from corpus.cases import (
    G0,
    Case,
    Expect,
    Opened,
    accept,
    both,
    gpu_is_t0,
    gpu_time_unknown,
    has_event,
    is_t0,
    kernel_names,
    recover,
    reject,
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


def memcpy_pair(args: Event) -> list[Event]:
    """A copy and the call that asked for it, so that nothing but `args` is odd."""
    return [
        complete(
            "cuda_runtime",
            "cudaMemcpyAsync",
            100,
            100,
            1_400_000,
            5_000,
            {"External id": 3, "correlation": 8},
        ),
        complete(
            "gpu_memcpy",
            "Memcpy HtoD",
            0,
            7,
            1_420_000,
            1_000,
            {"External id": 3, "device": 0, "stream": 7, "correlation": 8, "bytes": 4096} | args,
        ),
    ]


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


def a12_numbers(opened: Opened) -> None:
    gpu_time_unknown(opened)
    assert [kernel["dur_ns"] for kernel in opened.kernels] == [None]
    assert "Infinity" not in json.dumps(opened.doc)


def a16_one(opened: Opened) -> None:
    assert "\ufffd" in opened.doc["kernels"][0]["name"]
    assert opened.doc["kernels"][0]["name"].startswith("k")


def a16_groups(opened: Opened) -> None:
    """Two names whose bytes differ stay two kernels, both marked."""
    names = [row["name"] for row in opened.doc["kernels"]]
    assert len(names) == len(set(names)) == 2
    assert all("\ufffd" in name for name in names)


def a36_text(opened: Opened) -> None:
    is_t0(opened)
    note = next(note for note in opened.ledger.notes if note.code == "trailing_data")
    # with or without the blanks around the second document
    sizes = {len(G0.strip()), len(G0), len(G0) + 1}
    assert any(str(size) in note.text.replace(",", "") for size in sizes), (
        "the note says how many bytes were ignored"
    )


def a41_rest(opened: Opened) -> None:
    # The row lets the reader drop the argument or the event; the other ten must be untouched.
    gpu_is_t0(opened)
    assert opened.ledger.kept + opened.ledger.repaired >= 10


def deep(levels: int) -> Raw:
    return Raw("[" * levels + "]" * levels)


def keys(count: int, pattern: str = "k{}") -> Event:
    return {pattern.format(i): i for i in range(count)}


def two_bad_names() -> Doc:
    return gn(2).edit(E7, name="k\udcff\udcfe").edit(E7 + 5, name="k\udcfe\udcff")


def minified_quote() -> bytes:
    return g0().edit(E3, name=QUOTED).bytes("minified")


def python_repr() -> bytes:
    return repr(json.loads(G0)).encode()


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
        is_t0,
        same_as=G0,
    ),
    Case(
        "A05",
        "metadata_escaped_json",
        header_line('"note": {"a": "x/"y/n"},'),
        recover(11, 11, repaired_header=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A06",
        "metadata_not_json",
        header_line('"note": {not json,'),
        recover(11, 11, repaired_header=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A07",
        "metadata_bad_escape",
        header_line(r'"note": "C:\x\n",'),
        recover(11, 11, repaired_header=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A09",
        "na_bandwidth",
        g0().add(*memcpy_pair({"memory bandwidth (GB/s)": Raw("N/A")})).bytes(),
        recover(13, 13, nonfinite=1),
        same_as=g0().add(*memcpy_pair({})).bytes(),
    ),
    Case(
        "A10",
        "nan_upper",
        g0()
        .args(
            E7,
            {
                "blocks per SM": Raw("NaN"),
                "warps per SM": Raw("Infinity"),
                "priority": Raw("-Infinity"),
            },
        )
        .bytes(),
        accept(nonfinite=3),
        is_t0,
    ),
    Case(
        "A11",
        "nan_lower",
        g0()
        .add(
            {
                "ph": "C",
                "cat": "hardware_counters",
                "name": "dram",
                "pid": "GPU 0 Counters",
                "tid": 0,
                "ts": us(1_200_000),
                "args": {"": Raw("nan")},
            }
        )
        .bytes(),
        recover(12, 12, nonfinite=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A12",
        "float_overflow",
        g0().edit(E7, dur=Raw("1e400")).bytes(),
        accept(ts_out_of_window=1),
        a12_numbers,
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
        accept(control_char=1),
        both(is_t0, kernel_names("(no name)")),
    ),
    Case(
        "A14-escape",
        "bad_escape_in_key",
        events_text('"name": "sgemm"', '"na\\qe": "sgemm"'),
        recover(11, 11, repaired_string=1),
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
        is_t0,
        same_as=G0,
    ),
    Case("A19", "bom_utf8", b"\xef\xbb\xbf" + G0, accept(bom=1), is_t0),
    Case(
        "A20",
        "utf16_le",
        b"\xff\xfe" + G0.decode().encode("utf-16-le"),
        accept(bom=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A20-be",
        "utf16_be",
        b"\xfe\xff" + G0.decode().encode("utf-16-be"),
        accept(bom=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A21",
        "trailing_comma_events",
        G0.replace(b"\n  ],", b",\n  ],", 1),
        accept(trailing_comma=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A22",
        "leading_comma_events",
        G0.replace(b'"traceEvents": [', b'"traceEvents": [,', 1),
        accept(trailing_comma=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A24",
        "empty_event",
        Doc([*g0().events, {}]).bytes(),
        accept(good=11, seen=12, ts_missing=1),
        is_t0,
    ),
    Case(
        "A25",
        "null_event",
        Doc([*g0().events, None, 3, "x", []]).bytes(),
        accept(good=11, seen=15, event_unparsable=4),
        is_t0,
    ),
    Case("A26", "dup_key_header", header_line('"traceEvents": [],'), accept(dup_key=1), is_t0),
    Case(
        "A27",
        "dup_key_args",
        events_text('"context": 1', '"context": 1, "dtype": "Float", "dtype": "BFloat16"'),
        accept(dup_key=1),
        is_t0,
    ),
    Case(
        "A29",
        "over_uint64",
        g0()
        .args(E7, {"Comms Id": Raw("18446744073709551616"), "Addr": Raw("-9223372036854775809")})
        .bytes(),
        accept(bigint=2),
        is_t0,
    ),
    Case(
        "A30",
        "int_5000_digits",
        g0().edit(E6, id=Raw("9" * 5000)).bytes(),
        accept(bigint=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A31", "int_2_53_plus_1", g0().args(E7, {"Addr": 9007199254740993}).bytes(), accept(), is_t0
    ),
    Case(
        "A32",
        "negative_ts_format",
        g0().add(op("odd", ts=Raw("-1.-05"))).bytes(),
        recover(11, 12, event_unparsable=1),
        is_t0,
        same_as=G0,
    ),
    Case("A34", "single_quotes", python_repr(), reject("E_NOT_A_TRACE", "python repr")),
    Case("A35", "js_comment", b"// rank 0\n" + G0, reject("E_NOT_A_TRACE", offset=0)),
    Case("A36", "two_documents", G0 + G0, recover(11, 11, trailing_data=1), a36_text, same_as=G0),
    Case("A37", "jsonl_events", g0().bytes("json_lines"), reject("E_NO_EVENTS", "json", "lines")),
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
    Case("A40", "crlf", G0.replace(b"\n", b"\r\n"), accept(), is_t0),
    Case(
        "A41",
        "deep_args",
        g0().args(E4, {"deep": deep(2_000)}).bytes(),
        recover(None, 11, limit_depth=1),
        a41_rest,
        same_as=G0,
        compared=False,
    ),
    Case("A42", "deep_doc_100k", b"[" * 100_000, reject("E_TOO_DEEP")),
    Case(
        "A44",
        "long_string",
        lambda: g0().add(op("x" * (17 << 20))).bytes(),
        recover(11, 12, limit_string=1),
        is_t0,
        same_as=G0,
        forms=False,
    ),
    Case(
        "A44-low",
        "long_string_low_limit",
        g0().add(op("x" * 5_000)).bytes(),
        recover(11, 12, limit_string=1),
        is_t0,
        same_as=G0,
        limits={"string": 4_096},
    ),
    Case(
        "A45",
        "many_keys",
        lambda: g0().add(op("odd", args=keys(10_001))).bytes(),
        recover(11, 12, limit_args=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A45-edge",
        "keys_at_the_limit",
        lambda: g0().add(op("wide", args=keys(10_000))).bytes(),
        accept(),
        has_event("wide"),
    ),
    # The limit on keys applies to a flood in one event; a header is not an event, and must take it
    # in linear time.
    Case(
        "A46",
        "hash_flood",
        lambda: g0().head(**keys(100_000, "key{:0100}")).bytes(),
        accept(),
        is_t0,
    ),
    Case(
        "A46-event",
        "hash_flood_event",
        lambda: g0().add(op("odd", args=keys(100_000, "key{:0100}"))).bytes(),
        recover(11, 12, limit_args=1),
        is_t0,
        same_as=G0,
    ),
    Case(
        "A47",
        "slash_unicode_escapes",
        events_text('"sgemm"', r'"\u003cimg\/\u0061"'),
        accept(),
        both(is_t0, kernel_names("<img/a")),
    ),
]


FULL = [
    Case(
        "A44-full",
        "long_string_1GiB",
        lambda: g0().add(op("@")).bytes().replace(b'"@"', b'"' + b"x" * (1 << 30) + b'"'),
        recover(11, 12, limit_string=1),
        is_t0,
        compared=False,
        forms=False,
    ),
    Case(
        "A45-full",
        "many_keys_1M",
        lambda: g0().add(op("odd", args=keys(1_000_000))).bytes(),
        recover(11, 12, limit_args=1),
        is_t0,
        compared=False,
        forms=False,
    ),
]
