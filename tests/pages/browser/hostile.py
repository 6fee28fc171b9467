"""Names that would be markup, script or a trick, were a page to take them for anything but text."""

from __future__ import annotations

import re

from corpus import build

NAMES = {
    "F01 tag": "<img src=x onerror=alert(1)>",
    "F02 script": "</script><script>alert(1)</script>",
    "F03 attribute": '" onmouseover="alert(1)',
    "F03 focus": "' autofocus onfocus=alert(1) x='",
    "F05 style": "</style><svg onload=alert(1)>",
    "F05 expression": "width: expression(alert(1))",
    "F06 braces": "{{7*7}}",
    "F06 dollar": "${7*7}",
    "F06 percent": "<%= 7*7 %>",
    "F06 import": "{% import os %}",
    "F06 placeholder": "@@script@@ @@data@@",
    "F07 comment": "--><script>alert(1)</script>",
    "F07 open": "<!--<script>",
    "F07 cdata": "]]>",
    "F08 separators": "line\u2028para\u2029end",
    "F08 bidi": "abc\u202e gpj.exe",
    "F08 zero width": "a\u200bb\u200dc",
    "F10 proto": "__proto__",
    "F10 constructor": "constructor",
    "F10 own": "hasOwnProperty",
    "F11 formula": "=cmd|'/c calc'!A1",
    "F12 markdown": "| `x` | [a](javascript:alert(1))",
    "F13 bracket": "a" * 5000 + "(",
    "url": "javascript:alert(1)",
}


# as a page writes them: what turns or hides text is an escape
SHOWN = [
    re.sub("[\u200b-\u200f\u202a-\u202e]", lambda mark: f"\\u{ord(mark[0]):04x}", name)
    for name in NAMES.values()
]


def trace_bytes() -> bytes:
    """A trace in which every name of every kind of field is hostile, one step for each name."""
    events: list[build.Event] = [build.meta("process_name", 100, 0, {"name": NAMES["F01 tag"]})]
    launch = {"device": 0, "stream": 7, "grid": [4, 4, 1], "block": [128, 1, 1]}
    for at, name in enumerate(NAMES.values()):
        start, ident = 1_000_000 * (at + 1), at + 10
        shapes = {
            "Input Dims": [[8, 8], name],
            "Input type": [name, name],
            "Concrete Inputs": [name, name],
        }
        events += [
            build.meta("thread_name", 100, 100 + at % 2, {"name": name}),
            build.complete("user_annotation", f"ProfilerStep#{at}", 100, 100, start, 900_000),
            build.complete("user_annotation", name, 100, 100, start + 10_000, 800_000),
            build.complete(
                "cpu_op", name, 100, 100, start + 20_000, 600_000, {"External id": ident, **shapes}
            ),
            build.complete(
                "cuda_runtime",
                "cudaLaunchKernel",
                100,
                100,
                start + 30_000,
                10_000,
                {"correlation": ident},
            ),
            build.complete(
                "kernel",
                name,
                0,
                7,
                start + 100_000,
                500_000,
                {"correlation": ident, **launch, name: name},
            ),
            build.complete("gpu_user_annotation", name, 0, 7, start + 100_000, 500_000),
        ]
    card = build.DEVICE | {"name": NAMES["F02 script"]}
    header = build.HEADER | {"host_name": NAMES["F02 script"], "deviceProperties": [card]}
    return build.Doc(events, header, {"traceName": NAMES["F01 tag"]}).bytes()
