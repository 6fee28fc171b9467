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
from pathlib import Path
from typing import Any

import msgspec

from foretrace.base.private import hide_addresses, hide_keys, hide_paths
from foretrace.base.private.random_tokens import words
from foretrace.base.version import __version__
from foretrace.read.compiler import CompilerLogs, LogRecord, TextRecord, manifest_of
from foretrace.show.share.pseudonyms import Pseudonyms

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
    triton_kernel_info torch_version
""")
FIELDS = words("""
    dynamo_start compilation_metrics bwd_compilation_metrics compilation_metrics_runtime
    bwd_compilation_metrics_runtime
    aot_autograd_backward_compilation_metrics
""")
EMPTY = re.compile(r"(?:fx_graph|aotautograd)_cache_(?:hit|miss|bypass)|cudagraph\w{0,40}")
# Messages of the text log: code with reasons in it, or sentences.
REASONS = words("fusion schedule ir_pre_fusion ir_post_fusion")
SENTENCES = words("recompiles recompiles_verbose graph_breaks perf_hints cudagraphs")
# Texts of metrics that say what happened; numbers stay without being named.
_TOLD = words("""
    compile_id fail_type fail_reason recompile_reason cache_state graph_id name ph cat
""")
_FRAME = {"filename", "line", "name", "loc"}
_ID = re.compile(r"(?:!(\d{1,9})/?)?(?:(\d{1,9})/(\d{1,9}))?")
_HEAD = "V0101 00:00:00.000000 {} foretrace/show/share.py:{}]"
_NUMBERS = 1 << 53
# Words of the code that Inductor writes: replacing a name that is one of them would break the code.
CODE_WORDS = words("""
    add addmm alloc allocated args arg aten async atomic at autotune backend baddbmm base block bmm
    body bool buf buffer call class code compile compiled computed config constant convolution copy
    cpp cpu cuda def del dep device div dtype element empty exp extern fallback false float for from
    full fuse fused fusion generated get graph grid group guards heuristics id import in index
    indirect inductor inner input int item kernel kernels kwargs lambda layout len list load loop
    lowered mask maximum mean memory meta mm module mul name node none numel op ops origin out outer
    output params partition persistent pointwise pool prim program ptr range read reads reduction
    reinterpret relu return rsqrt run runner scheduler self set shape sigmoid signature size sizes
    slice softmax sort split star static store stride strided stream sub sum symbolic tanh target
    template tensor tiling tmp torch total triton true tuple type types unsafe user users value
    values var vec vectorized view wait warps weak where while workspace wrapper write writes xblock
    yblock xnumel ynumel
""")
_WORD = re.compile(r"\S{0,256}")
_TENSOR = re.compile(
    r"\w{1,12}(?:\[[\w ,*+/()^-]{0,400}\]){1,2}[\w:]{0,16}|Sym\([\w ,*+/()^-]{1,400}\)"
)
# What Inductor itself writes into comments, from a comment's first letter on.
_COMMENT = re.compile(
    r"\s*(?:AOT ID|Topologically Sorted|Source [Nn]ode|Original ATen|Graph fragment|\[Provenance"
    r"|%|return |kernel path|File: |reuse|No stacktrace|Unsorted|\w{0,256} => )"
)
_USERS_KERNEL = "user_autotune"  # a Triton kernel of the user, with its source
_CPP = ("#include", 'extern "C"', "#pragma")
_FILE = re.compile(r"File: (?P<file>[^\n]{1,4096}?):(?P<line>\d{1,9}) in (?P<rest>[^\n]*)")
_STACK_FRAME = re.compile(r'^( *)File "([^"\n]{1,4096})", line (\d{1,9}), in [^\n]*$')
_RESUMED = "torch_dynamo_resume_in_"
_FUNCTION = re.compile(r"(?<=Recompiling function )\S{1,256}(?= in )")
# In a sentence: pages that say the same to everybody, and a line of a file.
_PAGE_OR_LINE = re.compile(
    r"https://(?:meta-pytorch\.github\.io/compile-graph-break-site|(?:docs\.)?pytorch\.org)/[\w./#-]{0,200}+"
    r"|(?<![\w./@~+-])(?P<file>[\w./@~+-]{1,1024}\.py):(?P<line>\d{1,9})(?!\d)"
)
_DIVISION = re.compile(r"[\w.+-]++(?://[\w.+-]++)++|numel/rnumel")
_NAME = re.compile(r"[^\W\d]\w*+")
_LONG = re.compile(r"(?<![\w.])\d{16,}+|(?<=\.)\d{13,}+")


def _pieces(slash: str, more: str = "") -> re.Pattern[str]:
    """The pieces of code that are cleaned one by one; what is between them stays."""
    return re.compile(
        rf"""{more}
        (?P<path>(?<![\w/)\].@~+-])[~/][\w.@~+-]++(?:/[\w.@~+-]++)++|(?<![\w:])[A-Za-z]:\\[^\s'\"]++)
        |(?P<name>[A-Za-z0-9_](?:[\w.+=-]|{slash})*+)""",
        re.VERBOSE,
    )


_STRINGS = r"""(?P<nested>(?P<quotes>'''|\"\"\")[\s\S]*?(?:(?P=quotes)|\Z))
    |(?P<string>'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")|"""
_IN_COMMENT = _pieces("/")
_IN_PYTHON = _pieces("/", rf"{_STRINGS}(?P<comment>[#][^\n]*+)|")
_IN_CPP = _pieces("/(?!/)", rf"{_STRINGS}(?P<comment>//[^\n]*+)|")


def write_copy(logs: CompilerLogs, folder: Path, trace: str, text: CodeText) -> list[Path]:
    """Write the bundle of a copied trace; returns its files, the manifest last."""
    folder.mkdir(mode=0o700)
    names = {"torch_trace.log.gz": _records(logs.records, text)}
    names["torch_logs.txt.gz"] = _messages(logs.texts, text)
    written = [folder / name for name, lines in names.items() if _pack(folder / name, lines)]
    found = manifest_of(logs.path)
    about = {} if found is None else msgspec.structs.asdict(found)
    about |= {"kind": "foretrace-why", "schema": 1, "foretrace": __version__, "trace": trace}
    about["torch"] = text.private.clean(about.get("torch", ""))
    about["files"] = [path.name for path in written]
    manifest = folder / "manifest.json"
    manifest.write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")
    return [*written, manifest]


def texts_of(logs: CompilerLogs) -> Iterator[str]:
    """Texts of a log that may name a person: in paths."""
    yield from (text.text for text in logs.texts)
    for record in logs.records:
        yield record.payload.decode(errors="replace")
        yield str(record.fields)


def _pack(path: Path, lines: Iterable[str]) -> bool:
    """Write a log; whether there was anything to write."""
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
    if name in JSON:
        clean = text.prose if "stack" in name else text.code
        return fields, _json(payload, clean)
    if name in FIELDS:
        return _metrics(record.fields, text), ""
    if name == "chromium_event":
        return fields, _json(payload, text.code, lambda value: _metrics(value, text))
    return (fields, "") if EMPTY.fullmatch(name) else None


def _json(
    payload: str,
    clean: Callable[[str], str],
    listed: Callable[[dict[str, Any]], Any] | None = None,
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
        return _frame(value, text)
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
    return {text.private.clean(name): each for name, each in shown.items()}


def _frame(value: dict[str, Any], text: CodeText) -> dict[str, Any]:
    line = value.get("line")
    return {
        "filename": text.file(str(value["filename"])),
        "line": line if isinstance(line, int) else 0,
        "name": text.function(str(value.get("name") or "")),
        "loc": text.function(str(value.get("loc") or "")),
    }


def _line(record: LogRecord, fields: dict[str, Any], payload: str) -> str:
    """The record as torch writes one."""
    found = _ID.fullmatch(record.compile_id)
    names = ("compiled_autograd_id", "frame_id", "frame_compile_id")
    numbers = zip(names, found.groups() if found else (), strict=False)
    about: dict[str, Any] = {record.kind: fields}
    about |= {name: int(number) for name, number in numbers if number is not None}
    about |= {"attempt": record.attempt}
    about |= {} if record.rank is None else {"rank": record.rank}
    if payload:
        digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        about["has_payload"] = digest
    below = "".join(f"\n\t{line}" for line in payload.split("\n")) if payload else ""
    return f"{_HEAD.format(record.pid, record.line)} {msgspec.json.encode(about).decode()}{below}"


def _messages(texts: Iterable[TextRecord], text: CodeText) -> Iterator[str]:
    for each in texts:
        if each.channel in REASONS:
            body = text.reasons(each.text)
        elif each.channel in SENTENCES:
            body = text.prose(each.text)
        else:  # code of kernels is in the structured log
            text.private.left_out["record"] += 1
            continue
        rank = "" if each.rank is None else f"[rank{each.rank}]:"
        attempt = f"_{each.attempt}" if each.attempt else ""
        number = f" [{each.compile_id}{attempt}]" if _ID.fullmatch(each.compile_id) else ""
        number = number if each.compile_id else ""
        head = f"{rank}{_HEAD.format(each.pid, each.line)}{number} [__{each.channel}]"
        yield "\n".join(f"{head} {line}" for line in body.split("\n"))


class CodeText:
    """Cleans the texts of a log; `stacks` says whether functions and lines of code may stay.

    Code is not prose: `x0//128` is no path, and `token = embedding(x)` gives no secret away. So
    code is cut into strings, comments and names. A string without spaces is cleaned as a name is,
    any other is left out unless it is the type of a tensor. A comment stays if Inductor wrote it.
    Of a line of the user's code the file is a pseudonym and the number stays; the function and the
    code stay only where stacks are kept.
    """

    def __init__(self, private: Pseudonyms, *, stacks: bool) -> None:
        self.private, self.stacks = private, stacks
        self._known: dict[str, str] = {}  # names in code, most of which come again and again

    def code(self, text: str) -> str:
        """A graph, a wrapper, or a kernel inside one."""
        if "'''" not in text and _USERS_KERNEL in text:
            self.private.left_out["source"] += not self.stacks
            return self.prose(text) if self.stacks else "\n"
        is_cpp = "'''" not in text and any(word in text for word in _CPP)
        return (_IN_CPP if is_cpp else _IN_PYTHON).sub(self._piece, text)

    def _piece(self, match: re.Match[str]) -> str:
        text = match[0]
        match match.lastgroup:
            case "nested" | "quotes":
                quotes, closed = text[:3], len(text) >= 6 and text.endswith(text[:3])
                inside = self.code(text[3:-3] if closed else text[3:])
                return f"{quotes}{inside}{quotes if closed else ''}"
            case "string":
                return self._quoted(match)
            case "comment":
                sign = "#" if text.startswith("#") else "//"
                return sign + self._comment(text.removeprefix(sign))
            case "path":
                return self.private.clean(text)
        return self._name(text)

    def _comment(self, body: str) -> str:
        if not _COMMENT.match(body):
            self.private.left_out["comment"] += bool(body.strip())
            return ""
        if _FILE.search(body):
            return _FILE.sub(self._source, body)
        if _says_who(body):
            return self._literals(self.private.clean(body))
        return self._literals(_IN_COMMENT.sub(self._piece, body))

    def _source(self, match: re.Match[str]) -> str:
        rest = self.private.clean(match["rest"]) if self.stacks else "function, code: "
        return f"File: {self.file(match['file'])}:{match['line']} in {rest}"

    def _name(self, text: str) -> str:
        if text not in self._known:
            shown = _LONG.sub(lambda match: match[0][:12], hide_keys(text, self._key))
            shown = self.private.without_names(shown)
            shown = _NAME.sub(lambda match: self.private.clean(match[0]), shown)
            self._known[text] = shown
        return self._known[text]

    def _key(self, text: str) -> str:
        return self.private.clean(f"key={text}").removeprefix("key=")

    def _quoted(self, match: re.Match[str]) -> str:
        quote = match[0][0]
        return f"{quote}{self._literal(match[0][1:-1])}{quote}"

    def _literal(self, text: str) -> str:
        if _TENSOR.fullmatch(text):
            return text
        if _WORD.fullmatch(text):
            return self.private.clean(text)
        self.private.left_out["value"] += 1
        return ""

    def _literals(self, text: str) -> str:
        """The text with every string in it cleaned."""
        for quote in "'\"":
            string = rf"{quote}([^{quote}\n]*+){quote}"
            text = re.sub(
                string, lambda match: match[0][0] + self._literal(match[1]) + match[0][0], text
            )
        return text

    def prose(self, text: str) -> str:
        """A message for people: a line is cleaned as a name is; code below a frame is left out."""
        shown, below_frame = list[str](), False
        for line in text.split("\n"):
            frame = _STACK_FRAME.match(line)
            if frame:
                shown.append(
                    f'{frame[1]}File "{self.file(frame[2])}", line {frame[3]}, in function'
                )
            elif below_frame and line.startswith("    ") and not self.stacks:
                self.private.left_out["source"] += 1
                shown.append("    ")
            else:
                shown.append(self._sentence(line))
            below_frame = frame is not None
        return "\n".join(shown)

    def _sentence(self, line: str) -> str:
        line = line if self.stacks else _FUNCTION.sub("function", line)
        shown, done = "", 0
        for match in _PAGE_OR_LINE.finditer(line):
            file, number = match["file"], match["line"]
            shown += self._literals(self.private.clean(line[done : match.start()]))
            shown += f"{self.file(file)}:{number}" if file else match[0]
            done = match.end()
        return shown + self._literals(self.private.clean(line[done:]))

    def reasons(self, text: str) -> str:
        """A message of the scheduler: it has code in it, and a line with an address is prose."""
        return "\n".join(
            self.prose(line) if _says_who(line) else self.code(line) for line in text.split("\n")
        )

    def file(self, name: str) -> str:
        """The name of a file; that of a public package is its path inside the package."""
        return self.private.clean(name)

    def function(self, name: str) -> str:
        """The name of a function, or its source; that a graph break made a function stays."""
        start, _, line = name.rpartition("_at_")
        if self.stacks:
            return self.private.clean(name)
        resumed = start.startswith(_RESUMED) and line.isdecimal()
        return f"{_RESUMED}function_at_{line}" if resumed else ""


def _says_who(line: str) -> bool:
    """Whether a line holds what looks like a key, an address or a path: then it is no code."""
    rules = (hide_keys, hide_addresses, hide_paths)
    return any(rule(line, _no_code) != line for rule in rules)


def _no_code(text: str) -> str:
    return text if _DIVISION.fullmatch(text) else ""
