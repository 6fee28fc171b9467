"""Traces with a few fields changed, made from a number: the same number gives the same bytes."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

from corpus.build import LAYOUTS, Doc, Raw, g0, gn, raw_bytes

# every type and every edge of it, as JSON text between two blanks: what a writer could put anywhere
_VALUES = """
null  true  false  0  -0  1  -1  7  42  255  4096  2147483648  -2147483649  9007199254740993
9223372036854775807  9223372036854775808  -9223372036854775808  -9223372036854775809
18446744073709551615  18446744073709551616  1e18  1.8e19  99999999999999999999999999999
0.0  -0.0  0.5  1.5  7.0  1e3  1E+2  -2.5e-3  1e15  9e15  1e300  1e400  -1e400  0.001  1200.000
1708722576381804.5  ""  "x"  "7"  "-7"  " 7 "  "07"  "1200.000"  "1e3"  "nan"  "inf"  "-inf"
"1_000"  "0x10"  "stream 7"  "stream"  "true"  "null"  "\u00b2"  "--5"  "\\u0000"
"\\ud83d\\ude00"  "\\"q\\""  "C:\\\\x"  "a\\nb"  "\u00e9\u4e16"  "[TP00] 83"  "ProfilerStep#3"  "[memory]"
"kernel"  "cpu_op"  "Operator"  "M"  "X"  "i"  "B"  "E"  "s"  "f"  "cudaLaunchKernel"  "gpu_memcpy"
[]  [[]]  [1,2]  [1.5,"x",null]  [[8,8],[]]  {}  {"a":1}  {"a":{"b":[1,{}]}}  {"name":"x"}
"""
VALUES = _VALUES.strip().replace("\n", "  ").split("  ")
# keys that change how a record is read, and some that must not
_KEYS = "ph cat name pid tid ts dur id args bp s tts cname sf stack unknown Name PH"
KEYS = _KEYS.split()
_ARGS = """
correlation|External id|external id|External Id|Correlation|stream|device|bytes|grid|block|dtype
Input Dims|Input type|Call stack|Sequence number|finished|Python id|registers per thread|name|labels
Collective name|cuda_sync_kind|Bytes|Addr|Comms Id|no such argument
"""
ARGS = _ARGS.strip().replace("\n", "|").split("|")
SEEDS = [pickle.dumps(doc) for doc in (g0(), gn(2))]  # copied ten thousand times


def mutated(number: int) -> tuple[Doc, str]:
    """A document with one to three changes, and the layout to write it in."""
    chooser = random.Random(number)
    doc: Doc = pickle.loads(chooser.choice(SEEDS))
    for _ in range(chooser.choice((1, 1, 2, 3))):
        _change(doc, chooser)
    return doc, chooser.choice([name for name in LAYOUTS if name != "json_lines"])


def _change(doc: Doc, chooser: random.Random) -> None:
    at = chooser.randrange(len(doc.events))
    event = doc.events[at]
    change = chooser.choice(
        ("set", "set", "set", "drop", "swap", "copy", "remove", "value", "header")
    )
    if change == "header":
        doc.header[chooser.choice(sorted(doc.header))] = _value(chooser)
    elif change == "copy":
        doc.events.insert(chooser.randrange(len(doc.events)), copy.deepcopy(event))
    elif change == "remove" and len(doc.events) > 2:
        del doc.events[at]
    elif change == "value":
        doc.events.insert(at, _value(chooser))
    elif isinstance(event, dict):
        _change_fields(event, change, chooser)


def _change_fields(event: dict[str, Any], change: str, chooser: random.Random) -> None:
    inner = event.get("args")
    inside = isinstance(inner, dict) and chooser.random() < 0.4
    fields = inner if inside else event
    assert isinstance(fields, dict)
    keys = list(fields)
    if change == "set":
        known = ARGS if inside else KEYS
        fields[chooser.choice(keys + known)] = _value(chooser)
    elif change == "drop" and keys:
        del fields[chooser.choice(keys)]
    elif change == "swap" and keys:
        one, two = chooser.choice(keys), chooser.choice(keys)
        fields[one], fields[two] = fields[two], fields[one]


def _value(chooser: random.Random) -> Raw:
    return Raw(chooser.choice(VALUES))


def written(doc: Doc, layout: str) -> bytes:
    """`Doc.bytes`, also where an event, or its arguments, are no object."""
    inner = [event.get("args", {"": 0}) if isinstance(event, dict) else 0 for event in doc.events]
    if layout == "kineto" and not all(isinstance(args, dict) and args for args in inner):
        layout = "pretty"
    return raw_bytes(LAYOUTS[layout](doc))
