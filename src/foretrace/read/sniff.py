"""When a file is not a profiler trace, say what it is and what to do instead.

Each sign is looked for in the first bytes after containers were taken off. Nothing is unpickled or
given to another reader.
"""

from __future__ import annotations

import re

from foretrace.base.errors import TraceError
from foretrace.read.limits import raised_by

CHROME_HINT = "give a Chrome-trace JSON file as torch.profiler writes it"

# possessive: many blanks or braces are read once
_JSON_LINES = re.compile(
    rb'\s*+\{\s*+"[^"]{1,120}+"\s*+:(?:[^\n}]++|\}(?![ \t\r]*+\n))*+\}[ \t\r]*+\n\s*+\{\s*+"'
)

# code and pattern at the start; then what the file is | what to do
_SIGNS = r"""
E_PICKLE \x80[\x02-\x05]
    a Python pickle (never loaded) | open memory snapshots in torch's memory viewer
E_WRONG_FORMAT SQLite format 3\0
    an SQLite database (an Nsight Systems export?) | record with torch.profiler
E_WRONG_FORMAT NVR\0
    an Nsight Compute report | record with torch.profiler
E_WRONG_FORMAT \xfd7zXZ\0
    xz-compressed | unpack it with `xz -d`
E_WRONG_FORMAT BZh[1-9]
    bzip2-compressed | unpack it with `bunzip2`
E_NOT_A_TRACE \x7fELF
    a program | give a trace
E_NOT_A_TRACE version https://git-lfs
    a Git LFS pointer, not the trace itself | run `git lfs pull`
E_NOT_A_TRACE \s*+<
    HTML or XML (an error page saved as a trace?) | download the trace again
E_NOT_A_TRACE \s*+[\[{]\s*+'
    looks like a Python repr, not JSON | write it with json.dump
E_ENCODING [\[{]\0|\0[\[{]
    UTF-16 without a byte-order mark | convert it with `iconv -f UTF-16 -t UTF-8`
E_WRONG_FORMAT \s*+\{\s*+"schema"\s*+:\s*+"[\d.]
    a PyTorch execution trace, not a profiler trace | record with torch.profiler.profile
E_WRONG_FORMAT \s*+\[\s*+\[\s*+-?[\d.]
    a PyTorch memory timeline, not a profiler trace | record with torch.profiler.profile
""".strip().splitlines()


def refuse_non_json(path: str, first: bytes, depth_limit: int) -> None:
    """Raise the `TraceError` that fits when `first` cannot begin a trace."""
    text = first.lstrip(b" \t\r\n")
    if not text:
        return
    for sign, meaning in zip(_SIGNS[::2], _SIGNS[1::2], strict=True):
        code, pattern = sign.split(" ", 1)
        if re.match(pattern.encode("ascii"), first):
            what, hint = meaning.strip().split(" | ")
            raise TraceError(code, path, what, offset=0, hint=hint)
    if first.startswith(b"\n") and (not text.startswith((b"{", b"[")) or b"\x12" in first[:64]):
        _refuse_protobuf(path, first)
    if not text.startswith((b"{", b"[")):
        what = f"begins with neither {{ nor [ but {text[:12].decode('latin-1')!a}"
        offset = len(first) - len(text)
        raise TraceError("E_NOT_A_TRACE", path, what, offset=offset, hint=CHROME_HINT)
    if re.match(rb"\s*+(?:\[\s*+){%d}" % (depth_limit + 1), first):
        what = f"nested deeper than {depth_limit}"
        raise TraceError("E_TOO_DEEP", path, what, offset=depth_limit, hint=raised_by("depth"))


def _refuse_protobuf(path: str, first: bytes) -> None:
    what = "a Perfetto protobuf trace"
    hint = "open it at ui.perfetto.dev, or export Chrome JSON from torch.profiler"
    if b"/host:" in first or b"/device:" in first or b"XSpace" in first:
        what, hint = "an XPlane protobuf (TensorFlow or JAX profiler)", "record with torch.profiler"
    raise TraceError("E_WRONG_FORMAT", path, what, offset=0, hint=hint)


def empty(path: str) -> TraceError:
    """The error for a file without content."""
    hint = "the export may have been killed: record again"
    return TraceError("E_EMPTY", path, "empty", offset=0, hint=hint)


def refuse_no_events(path: str, start: bytes, whole: bool) -> TraceError:
    """The error for a JSON document in which no list of events was found."""
    code, offset = "E_NO_EVENTS", 0
    what, hint = "has no list `traceEvents`", CHROME_HINT
    if _JSON_LINES.match(start) and b'"ph"' in start[:4096]:
        what = "JSON-lines: one event per line, without a list around them"
        hint = "wrap them: `jq -s . FILE > trace.json`"
    elif b'"nodes"' in start and b'"schema"' in start:
        code, what = "E_WRONG_FORMAT", "a PyTorch execution trace, not a profiler trace"
        hint = "record with torch.profiler.profile"
    elif not whole:
        what, offset = "the file was cut in the header, before its first event", len(start)
        hint = "record again; this file cannot be recovered"
    return TraceError(code, path, what, offset=offset, hint=hint)
