"""Files whose JSON is odd, broken or beyond a limit."""

from __future__ import annotations

import json
from typing import Any

from corpus.build import E3, E4, E6, E7, Doc, Raw, complete, g0, gn
from corpus.cases import (
    G0,
    Case,
    Opened,
    accept,
    gpu_is_t0,
    gpu_time_unknown,
    is_t0,
    recover,
    reject,
    shows,
)

QUOTED = Raw('"a"b"')  # the raw text torch 2.13.0 writes for record_function('a"b')
FRAME = '{"device": "cpu"}(0): <module>'


def header_line(line: str) -> bytes:
    """G0 with one more header line, written as it stands."""
    return G0.replace(b'  "with_stack"', b"  " + line.encode() + b'\n  "with_stack"', 1)


def text(before: str, after: str) -> bytes:
    """G0 with one piece of text replaced once."""
    assert before.encode() in G0
    return G0.replace(before.encode(), after.encode("utf-8", "surrogateescape"), 1)


def frames(name: Any) -> Doc:
    at = (1_001_000, 1_020_000)
    return g0().add(*(complete("python_function", name, 100, 100, ts, 10_000) for ts in at))


def op(name: str, **fields: object) -> Doc:
    """G0 with one more op, apart from all others."""
    args = {"External id": 9}
    return g0().add(complete("cpu_op", name, 100, 100, 1_500_000, 1_000, args) | fields)


def memcpy(args: dict[str, Any]) -> Doc:
    """G0 with a copy and its call, so that nothing but `args` is odd."""
    ids = {"External id": 3, "correlation": 8}
    where = {"device": 0, "stream": 7, "bytes": 4096}
    return g0().add(
        complete("cuda_runtime", "cudaMemcpyAsync", 100, 100, 1_400_000, 5_000, ids),
        complete("gpu_memcpy", "Memcpy HtoD", 0, 7, 1_420_000, 1_000, ids | where | args),
    )


def one_region(opened: Opened) -> None:
    assert [region["name"] for region in opened.doc["regions"]] == ['a"b']


def two_frames(opened: Opened) -> None:
    assert sum(event["name"] == FRAME for event in opened.events) == 2


def no_wrong_name(opened: Opened) -> None:
    """Recovered or lost, but never under another name."""
    known = {event["name"] for event in g0().events} | {'a"b'}
    assert {event["name"] for event in opened.events} <= known
    assert opened.ledger.kept + opened.ledger.repaired >= 10
    assert opened.ledger.seen == 11


def two_bad_names(opened: Opened) -> None:
    """Two names whose bytes differ stay two kernels, both marked."""
    names = [row["name"] for row in opened.doc["kernels"]]
    assert len(set(names)) == 2
    assert all("\ufffd" in name for name in names)


def says_what_was_ignored(opened: Opened) -> None:
    note = next(note for note in opened.ledger.notes if note.code == "trailing_data")
    assert str(len(G0) - 1) in note.text.replace(",", "")


def keys(count: int) -> dict[str, int]:
    return {f"k{i}": i for i in range(count)}


DEEP = Raw("[" * 2_000 + "]" * 2_000)
NANS = {"blocks per SM": Raw("NaN"), "warps per SM": Raw("Infinity"), "priority": Raw("-Infinity")}
HUGE = {"Comms Id": Raw("18446744073709551616"), "Addr": Raw("-9223372036854775809")}
REPAIRED = {"repaired_header": 1}

CASES = [
    # as torch 2.13.0 writes quotes, by record_function, with_stack and add_metadata
    Case(
        "A01 quote_in_annotation",
        g0().edit(E3, name=QUOTED),
        recover(11, 11, repaired_string=1, no_steps=1),
        shows(gpu_is_t0, one_region),
        same_as=g0().edit(E3, name='a"b'),
    ),
    Case(
        "A02 quote_in_python_frame",
        frames(Raw(f'"{FRAME}"')),
        recover(13, 13, repaired_string=2),
        shows(is_t0, two_frames),
        same_as=frames(FRAME),
    ),
    *(
        Case(f"{name} metadata", header_line(line), recover(11, 11, **REPAIRED), same_as=G0)
        for name, line in {
            "A04": '"note": "a /"quoted/" word",',
            "A05": '"note": {"a": "x/"y/n"},',
            "A06": '"note": {not json,',
            "A07": r'"note": "C:\x\n",',
        }.items()
    ),
    Case(
        "A39 minified_plus_quote",
        lambda: g0().edit(E3, name=QUOTED).bytes("minified"),
        recover(None, 11, no_steps=1, may="repaired_string event_unparsable"),
        no_wrong_name,
        compared=False,
    ),
    Case("A09 na_bandwidth", memcpy({"memory bandwidth (GB/s)": Raw("N/A")}),
         recover(13, 13, nonfinite=1), None, same_as=memcpy({})),
    Case("A10 nan", g0().args(E7, NANS), accept(nonfinite=3)),
    Case("A12 float_overflow", g0().edit(E7, dur=Raw("1e400")), accept(ts_out_of_window=1),
         shows(gpu_time_unknown, kernels={"dur_ns": [None]})),
    Case("A14 nul_byte", text('"sgemm"', '"sg\0emm"'), accept(control_char=1),
         shows(is_t0, kernels={"name": ["sg\0emm"]})),
    Case("A16 bad_utf8", gn(2).edit(E7, name="k\udcff\udcfe").edit(E7 + 5, name="k\udcfe\udcff"),
         accept(bad_utf8=2), two_bad_names, compared=False),
    Case("A17 utf8_cut_mid_char", op("caf\u20ac").bytes().partition(b"\xe2\x82\xac")[0] + b"\xe2",
         recover(10, 11, trace_truncated=1), same_as=G0),
    Case("A19 bom_utf8", b"\xef\xbb\xbf" + G0, accept(bom=1)),
    Case("A20 utf16", b"\xff\xfe" + G0.decode().encode("utf-16-le"), accept(bom=1), same_as=G0),
    Case("A20-cut utf16_cut_inside_a_character", G0.decode().encode("utf-16")[:-3],
         recover(11, 11, bom=1, bad_utf8=1, trace_truncated=1, may="repaired_header"), compared=False),
    Case("A21 trailing_comma", text("\n  ],", ",\n  ],"), accept(trailing_comma=1), same_as=G0),
    Case("A24 empty_event", Doc([*g0().events, {}]), accept(good=11, seen=12, ts_missing=1)),
    Case("A25 null_event", Doc([*g0().events, None, 3, "x", []]),
         accept(good=11, seen=15, event_unparsable=4)),
    Case("A26 dup_key_header", header_line('"traceEvents": [],'), accept(dup_key=1)),
    Case("A27 dup_key_args", text('"context": 1', '"context": 1, "dtype": "a", "dtype": "b"'),
         accept(dup_key=1)),
    Case("A29 over_uint64", g0().args(E7, HUGE), accept(bigint=2)),
    Case("A30 int_5000_digits", g0().edit(E6, id=Raw("9" * 5000)), accept(bigint=1), same_as=G0),
    Case("A32 negative_ts_format", op("odd", ts=Raw("-1.-05")),
         recover(11, 12, event_unparsable=1), same_as=G0),
    Case("A34 python_repr", repr(json.loads(G0)).encode(), reject("E_NOT_A_TRACE", "python repr")),
    Case("A35 js_comment", b"// rank 0\n" + G0, reject("E_NOT_A_TRACE")),
    Case("A36 two_documents", G0 + G0, recover(11, 11, trailing_data=1, bytes_unread=1),
         shows(is_t0, says_what_was_ignored), same_as=G0),
    Case("A37 json_lines", g0().bytes("json_lines"), reject("E_NO_EVENTS", "json", "lines")),
    Case("A41 deep_args", g0().args(E4, {"deep": DEEP}), recover(None, 11, limit_depth=1),
         gpu_is_t0, compared=False),
    Case("A42 deep_document", b"[" * 100_000, reject("E_TOO_DEEP")),
    Case("A44 long_string", op("x" * 5_000), recover(11, 12, limit_string=1), same_as=G0,
         limits={"string": 4_096}),
    Case("A45 many_keys", lambda: op("odd", args=keys(10_001)).bytes(),
         recover(11, 12, limit_args=1), same_as=G0),
    Case("A47 escapes", text('"sgemm"', r'"\u003cimg\/\u0061"'), accept(),
         shows(is_t0, kernels={"name": ["<img/a"]})),
]  # fmt: skip
