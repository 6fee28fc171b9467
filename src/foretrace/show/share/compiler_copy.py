"""A copy of the compiler's records that others may see: what `why` reads, and nothing else.

The copy is written again, record by record, from a list of kinds: a kind that is not listed is left
out. `fx_graph_runnable` (which holds the environment), guards with the values of arguments,
descriptions of tensors and settings are not listed.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from foretrace.base.patterns import regex
from foretrace.base.private import words
from foretrace.base.version import __version__
from foretrace.read.compiler import CompilerLogs, LogRecord, TextRecord, manifest_of
from foretrace.show.share.pseudonyms import MACHINES, Pseudonyms, by_word

# Kinds and names of artifacts by what their payload is.
CODE = words("""
    dynamo_output_graph aot_joint_graph aot_forward_graph aot_backward_graph aot_inference_graph
    inductor_pre_grad_graph inductor_post_grad_graph before_pre_grad_graph after_pre_grad_graph
    before_joint_graph after_joint_graph before_post_grad_graph after_post_grad_graph
    inductor_output_code compiled_autograd_graph
""")
PROSE = words("dynamo_graph_break_reason recompile_reasons")
JSON = words("""
    inductor_provenance_tracking_node_mappings inductor_provenance_tracking_kernel_stack_traces
    triton_kernel_info
""")
FIELDS = words("""
    dynamo_start compilation_metrics bwd_compilation_metrics compilation_metrics_runtime
    bwd_compilation_metrics_runtime
    aot_autograd_backward_compilation_metrics
""")
EMPTY = regex(r"(?:fx_graph|aotautograd)_cache_(?:hit|miss|bypass)|cudagraph\w{0,40}")
# Messages of the text log.
MESSAGES = words("""
    fusion schedule ir_pre_fusion ir_post_fusion recompiles recompiles_verbose graph_breaks
    perf_hints cudagraphs
""")
# Texts of metrics that say what happened; numbers stay without being named.
_TOLD = words("""
    compile_id fail_type fail_reason recompile_reason cache_state graph_id name ph cat
""")
_FRAME = {"filename", "line", "name", "loc"}
_ID = regex(r"(?:!(\d{1,9})/?)?(?:(\d{1,9})/(\d{1,9}))?")
_HEAD = "V0101 00:00:00.000000 {} foretrace/show/share.py:{}]"
_NUMBERS = 1 << 53
_USERS_KERNEL = "user_autotune"  # a Triton kernel of the user, with its source
_FILE = regex(r"File: (?P<file>[^\n]{1,4096}?):(?P<line>\d{1,9}) in (?P<rest>[^\n]*)")
_STACK_FRAME = regex(r'^( *)File "([^"\n]{1,4096})", line (\d{1,9}), in [^\n]*$')
_VERSION = regex(
    r"[\d.]{1,16}(?:a0|b\d|rc\d)?(?:\.dev\d{8})?(?:\+(?:cpu|cu\d+|rocm[\d.]+|git\w{7}))?"
)
# A frame or its code in a list of the scheduler.
_QUOTED_FRAME = regex(r"""(['"])  (?:(?!\1)[^\\\n]|\\.){0,4096}+\1""")
_RESUMED = "torch_dynamo_resume_in_"
_FUNCTION = regex(r"(?<=Recompiling function )\S{1,256}(?= in )")
_PYTHON_LINE = regex(r"(?<![\w./@~+-])[\w./@~+-]{1,1024}\.py(?=:\d)")
_PACKAGE = regex(r"\A.*[\\/](?:site|dist)-packages[\\/](?=torch[\\/]|triton[\\/])", re.DOTALL)
# Numbers that are no size: longer than any, or joined as those of addresses and telephones are.
_FRACTION = regex(r"(?<=\.)(\d{12})\d++")
_NO_SIZE = regex(
    r"(?<!\d)\d++(?:[.:-]\d++){2,}+|(?<!\d)\d++(?: \d++)++"
    r"|(?<![\w.])[a-z]?0\d{2,}+(?:[/-]\d++)?|\(\d{2,4}\) ?\d{3,4}[. -]\d++"
)
_MACHINE = regex(rf"(?i)(?<![a-z])(?:{MACHINES})(?:[_-][a-z0-9]{{1,16}}){{0,3}}?[_-]?\d++")
_LONGEST_SIZE = 12


def write_copy(logs: CompilerLogs, folder: Path, trace: str, text: CodeText) -> list[Path]:
    """Write the bundle of a copied trace; returns its files, the manifest last."""
    folder.mkdir(mode=0o700)
    names = {"torch_trace.log.gz": _records(logs.records, text)}
    names["torch_logs.txt.gz"] = _messages(logs.texts, text)
    written = [folder / name for name, lines in names.items() if _pack(folder / name, lines)]
    found = manifest_of(logs.path)
    about = {} if found is None else msgspec.structs.asdict(found)
    about |= {"kind": "foretrace-why", "schema": 1, "foretrace": __version__, "trace": trace}
    about["torch"] = _version(about.get("torch", ""))
    about["files"] = [path.name for path in written]
    manifest = folder / "manifest.json"
    manifest.write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")
    return [*written, manifest]


def _version(text: str) -> str:
    return text if _VERSION.fullmatch(text) else ""


def texts_of(logs: CompilerLogs) -> Iterator[str]:
    """Texts of a log that may name a person: in paths."""
    yield from (text.text for text in logs.texts)
    for record in logs.records:
        yield record.payload.decode(errors="replace")
        yield str(record.fields)


def _pack(path: Path, lines: Iterable[str]) -> bool:
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        size = sum(packed.write(f"{line}\n".encode()) for line in lines)
    if not size:
        path.unlink()
    return size > 0


def _records(records: Iterable[LogRecord], text: CodeText) -> Iterator[str]:
    for record in records:
        shown = _shown(record, text)
        if shown is None:
            text.private.left_out["record"] += 1
        else:
            yield _line(record, *shown)


def _shown(record: LogRecord, text: CodeText) -> tuple[dict[str, Any], str] | None:
    """The fields and the payload of a record as others may see them; None for one that stays."""
    name = record.name or record.kind
    payload = record.payload.decode(errors="replace")
    fields = {"name": record.name} if record.name else {}
    if name in CODE:
        return fields, text.code(payload)
    if name in PROSE:
        return fields, _json(payload, text.prose) or text.prose(payload)
    if name == "torch_version":
        return fields, _json(payload, _version)
    if name in JSON:
        clean = text.prose if "stack" in name else text.code
        return fields, _json(payload, clean)
    if name in FIELDS:
        return _metrics(record.fields, text), ""
    if name == "chromium_event":
        return fields, _json(payload, text.code, lambda value: _metrics(value, text))
    return (fields, "") if EMPTY.fullmatch(name) else None


def _json(
    payload: str, clean: Callable[[str], str], listed: Callable[[dict[str, Any]], Any] | None = None
) -> str:
    """A JSON payload with every text cleaned; empty where it is not JSON."""
    try:
        value = msgspec.json.decode(payload)
        if listed is not None:
            value = listed(value) if isinstance(value, dict) else None
        else:
            value = _texts(value, clean)
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):
        return ""


def _texts(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): _texts(each, clean) for name, each in value.items()}
    return [_texts(each, clean) for each in value] if isinstance(value, list) else value


def _metrics(value: Any, text: CodeText) -> Any:
    """Numbers, and the texts that are listed; of a stack, its files and lines."""
    if isinstance(value, list):
        return [_metrics(each, text) for each in value if isinstance(each, dict)]
    if value.keys() <= _FRAME and "filename" in value:
        line = value.get("line")
        return {
            "filename": text.file(str(value["filename"])),
            "line": line if isinstance(line, int) else 0,
            "name": text.function(str(value.get("name") or "")),
            "loc": text.function(str(value.get("loc") or "")),
        }
    shown = dict[str, Any]()
    for name, each in value.items():
        if isinstance(each, bool | int | float) and abs(each) < _NUMBERS:
            shown[name] = each
        elif isinstance(each, dict | list):
            shown[name] = _metrics(each, text)
        elif isinstance(each, str) and name.endswith("filename"):
            shown[name] = text.file(each)
        elif isinstance(each, str) and name in _TOLD:
            shown[name] = text.prose(each)
        elif isinstance(each, str) and name == "co_name":
            shown[name] = text.function(each)
    return {text.sentence(name): each for name, each in shown.items()}


def _line(record: LogRecord, fields: dict[str, Any], payload: str) -> str:
    found, below = _ID.fullmatch(record.compile_id), ""
    names = ("compiled_autograd_id", "frame_id", "frame_compile_id")
    numbers = zip(names, found.groups() if found else (), strict=False)
    about: dict[str, Any] = {record.kind: fields}
    about |= {name: int(number) for name, number in numbers if number is not None}
    about |= {"attempt": record.attempt}
    about |= {} if record.rank is None else {"rank": record.rank}
    if payload:
        about["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        below = "".join(f"\n\t{line}" for line in payload.split("\n"))
    return f"{_HEAD.format(record.pid, record.line)} {msgspec.json.encode(about).decode()}{below}"


def _messages(texts: Iterable[TextRecord], text: CodeText) -> Iterator[str]:
    for each in texts:
        if each.channel not in MESSAGES:  # code of kernels is in the structured log
            text.private.left_out["record"] += 1
            continue
        rank = "" if each.rank is None else f"[rank{each.rank}]:"
        attempt = f"_{each.attempt}" if each.attempt else ""
        number = f" [{each.compile_id}{attempt}]" if _ID.fullmatch(each.compile_id) else ""
        number = number if each.compile_id else ""
        head = f"{rank}{_HEAD.format(each.pid, each.line)}{number} [__{each.channel}]"
        yield "\n".join(f"{head} {line}" for line in text.prose(each.text).split("\n"))


class CodeText:
    """Cleans the texts of a log: known words and sizes stay.

    Of a line of the user's code the file is a pseudonym and the number stays; the function and the
    code stay only where stacks are kept.
    """

    def __init__(self, private: Pseudonyms) -> None:
        self.private, self.stacks = private, "stacks" in private.keep

    def code(self, text: str) -> str:
        """A graph, a wrapper, or a kernel inside one."""
        pieces = text.split("'''")  # a wrapper holds the code of kernels as strings
        shown = list[str]()
        for piece in pieces:
            if _USERS_KERNEL not in piece:
                shown.append(self._between(_FILE, piece, self._source, self._words))
            else:
                self.private.left_out["source"] += not self.stacks
                shown.append(self.private.kept(piece) if self.stacks else "\n")
        return "'''".join(shown)

    @staticmethod
    def _between(
        pattern: re.Pattern[str],
        text: str,
        found: Callable[[re.Match[str]], str],
        rest: Callable[[str], str],
    ) -> str:
        """The text with each match shown by `found`, and what is between matches by `rest`."""
        shown, done = list[str](), 0
        for match in pattern.finditer(text):
            shown += [rest(text[done : match.start()]), found(match)]
            done = match.end()
        return "".join((*shown, rest(text[done:])))

    def _source(self, match: re.Match[str]) -> str:
        rest = self.private.kept(match["rest"]) if self.stacks else "function, code: "
        return f"File: {self.file(match['file'])}:{match['line']} in {rest}"

    def _words(self, text: str, sentence: bool = False) -> str:
        text = _MACHINE.sub("machine", _NO_SIZE.sub("0", _FRACTION.sub(r"\1", text)))
        return by_word(text, partial(self.private.pseudonym, "name"), _LONGEST_SIZE, sentence)

    def prose(self, text: str) -> str:
        """A message for people; a line of code below a frame is left out."""
        shown, below_frame = list[str](), False
        for line in text.split("\n"):
            frame = _STACK_FRAME.match(line)
            if frame:
                place = f'File "{self.file(frame[2])}", line {frame[3]}'
                shown.append(f"{frame[1]}{place}, in function")
            elif below_frame and line.startswith("    "):
                self.private.left_out["source"] += not self.stacks
                shown.append(self.private.kept(line) if self.stacks else "    ")
            else:
                shown.append(self.sentence(line))
            below_frame = frame is not None
        return "\n".join(shown)

    def sentence(self, line: str) -> str:
        """One line of a message, or the name of a field."""
        line = _QUOTED_FRAME.sub(r"\1\1", _FUNCTION.sub("function", line))
        words = partial(self._words, sentence=True)
        return self._between(_PYTHON_LINE, line, lambda match: self.file(match[0]), words)

    def file(self, name: str) -> str:
        """The name of a file; that of torch is its path inside the package."""
        if "paths" in self.private.keep:
            return self.private.kept(name)
        inside = _PACKAGE.sub("", name)
        same = inside == name
        return self.private.pseudonym("path", name) if same else self._words(inside, sentence=True)

    def function(self, name: str) -> str:
        """The name of a function, or its source; that a graph break made a function stays."""
        start, _, line = name.rpartition("_at_")
        if self.stacks:
            return self.private.kept(name)
        resumed = start.startswith(_RESUMED) and line.isdecimal()
        return f"{_RESUMED}function_at_{line}" if resumed else ""
