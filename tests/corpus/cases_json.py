"""JSON that is odd or broken outside of strings, and its limits."""

from __future__ import annotations

import json

from corpus.build import E4, E6, E7, Doc, Event, Raw, complete, g0, us
from corpus.cases import (
    ANY,
    G0,
    Case,
    Opened,
    accept,
    gpu_is_t0,
    gpu_time_unknown,
    has_event,
    is_t0,
    recover,
    reject,
)
from corpus.cases_strings import events_text, header_line, op


def memcpy_pair(args: Event) -> list[Event]:
    """A copy and its call, so that nothing but `args` is odd."""
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


def a12_numbers(opened: Opened) -> None:
    gpu_time_unknown(opened)
    assert [kernel["dur_ns"] for kernel in opened.kernels] == [None]
    assert "Infinity" not in json.dumps(opened.doc)


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


def python_repr() -> bytes:
    return repr(json.loads(G0)).encode()


CASES = [
    Case(
        "A09",
        "na_bandwidth",
        g0().add(*memcpy_pair({"memory bandwidth (GB/s)": Raw("N/A")})).bytes(),
        recover(13, 13, nonfinite=1),
        None,
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
        same_as=G0,
    ),
    Case(
        "A12",
        "float_overflow",
        g0().edit(E7, dur=Raw("1e400")).bytes(),
        accept(ts_out_of_window=1),
        a12_numbers,
    ),
    Case("A19", "bom_utf8", b"\xef\xbb\xbf" + G0, accept(bom=1)),
    Case(
        "A20", "utf16_le", b"\xff\xfe" + G0.decode().encode("utf-16-le"), accept(bom=1), same_as=G0
    ),
    Case(
        "A20-be",
        "utf16_be",
        b"\xfe\xff" + G0.decode().encode("utf-16-be"),
        accept(bom=1),
        same_as=G0,
    ),
    Case(
        "A21",
        "trailing_comma_events",
        G0.replace(b"\n  ],", b",\n  ],", 1),
        accept(trailing_comma=1),
        same_as=G0,
    ),
    Case(
        "A22",
        "leading_comma_events",
        G0.replace(b'"traceEvents": [', b'"traceEvents": [,', 1),
        accept(trailing_comma=1),
        same_as=G0,
    ),
    Case(
        "A24",
        "empty_event",
        Doc([*g0().events, {}]).bytes(),
        accept(good=11, seen=12, ts_missing=1),
    ),
    Case(
        "A25",
        "null_event",
        Doc([*g0().events, None, 3, "x", []]).bytes(),
        accept(good=11, seen=15, event_unparsable=4),
    ),
    Case("A26", "dup_key_header", header_line('"traceEvents": [],'), accept(dup_key=1)),
    Case(
        "A27",
        "dup_key_args",
        events_text('"context": 1', '"context": 1, "dtype": "Float", "dtype": "BFloat16"'),
        accept(dup_key=1),
    ),
    Case(
        "A28", "dup_key_dur", events_text('"dur": 50', '"dur": 7, "dur": 50'), accept(dup_key=ANY)
    ),
    Case(
        "A29",
        "over_uint64",
        g0()
        .args(E7, {"Comms Id": Raw("18446744073709551616"), "Addr": Raw("-9223372036854775809")})
        .bytes(),
        accept(bigint=2),
    ),
    Case(
        "A30",
        "int_5000_digits",
        g0().edit(E6, id=Raw("9" * 5000)).bytes(),
        accept(bigint=1),
        same_as=G0,
    ),
    Case("A31", "int_2_53_plus_1", g0().args(E7, {"Addr": 9007199254740993}).bytes(), accept()),
    Case(
        "A32",
        "negative_ts_format",
        g0().add(op("odd", ts=Raw("-1.-05"))).bytes(),
        recover(11, 12, event_unparsable=1),
        same_as=G0,
    ),
    Case("A34", "single_quotes", python_repr(), reject("E_NOT_A_TRACE", "python repr")),
    Case("A35", "js_comment", b"// rank 0\n" + G0, reject("E_NOT_A_TRACE", offset=0)),
    Case(
        "A36",
        "two_documents",
        G0 + G0,
        recover(11, 11, trailing_data=1, bytes_unread=1),
        a36_text,
        same_as=G0,
    ),
    Case("A37", "jsonl_events", g0().bytes("json_lines"), reject("E_NO_EVENTS", "json", "lines")),
    Case("A40", "crlf", G0.replace(b"\n", b"\r\n"), accept()),
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
        same_as=G0,
        forms=False,
    ),
    Case(
        "A44-low",
        "long_string_low_limit",
        g0().add(op("x" * 5_000)).bytes(),
        recover(11, 12, limit_string=1),
        same_as=G0,
        limits={"string": 4_096},
    ),
    Case(
        "A45",
        "many_keys",
        lambda: g0().add(op("odd", args=keys(10_001))).bytes(),
        recover(11, 12, limit_args=1),
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
        lambda: g0().head(**keys(100_000, "key{:0100}")).bytes("minified"),
        accept(),
        compared=False,
        forms=False,
    ),
    Case(
        "A46-event",
        "hash_flood_event",
        lambda: g0().add(op("odd", args=keys(100_000, "key{:0100}"))).bytes(),
        recover(11, 12, limit_args=1),
        same_as=G0,
    ),
]
