"""What words mean, for people (`explain WORD`), and a rule or fix on a trace (`look --explain`)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from msgspec import UNSET

from foretrace.analyze import fixes, rules
from foretrace.analyze.steering import FIX, RULE, check_names
from foretrace.base import plugins
from foretrace.base.units import bytes_text, count_text, plural, time_text, times_text
from foretrace.names.families import value_text
from foretrace.schema.documents.explain import DecodedName, Manual, ManualEntry, NameLaunch
from foretrace.schema.documents.look import FindingEntry, FixEntry, Look
from foretrace.schema.kernel import FieldChange
from foretrace.show.overview.manual import DOCUMENT, QUANTITY
from foretrace.show.overview.measured_step import saving_text
from foretrace.show.render.fixes_page import interval
from foretrace.show.render.terminal import WIDTH, Section, plain

# the head of a paragraph in a rule's or a fix's file, and the word in front of it here
_HEADS = {
    "What it shows": "LOOKS FOR",
    "What it looks for": "LOOKS FOR",
    "Why it matters": "MATTERS",
    "How it is computed": "FIRES",
    "When it is wrong": "NOT KNOWN",
    "What must hold": "MUST HOLD",
    "What changes": "CHANGES",
}
# plural, and what the second column says
_KINDS = {
    RULE: ("rules", "looks for"),
    FIX: ("fixes", "does"),
    QUANTITY: ("quantities", "what predictions say of it"),
    DOCUMENT: ("documents", "holds"),
}


def manual_page(found: Manual, *, listed: bool) -> list[Section]:
    """What the words mean, or a line for everything that has a name."""
    if not listed:
        pages = [section for each in found.entries for section in _manual(each)]
        for kernel in found.kernels or ():
            parts = [(part.text, part.meaning) for part in kernel.parts]
            pages.append(Section(f"{kernel.short} (kernel name)", labelled=parts))
        return pages
    tables = []
    for kind, (many, said) in _KINDS.items():
        rows = [[each.name, each.title] for each in found.entries if each.kind == kind]
        tables.append(
            Section(plural(len(rows), kind, many), head=[kind, said], rows=rows, left=(0, 1))
        )
    others = "an op (aten::addmm), a word that predictions count (gemm) or a kernel name"
    more = f"more: foretrace explain WORD, also {others}; on a trace: look --explain NAME"
    return [*tables, Section("", [more])]


def _manual(entry: ManualEntry) -> list[Section]:
    lines = [(_HEADS.get(head, head.upper()), text) for head, text in entry.manual.items() if head]
    lines += [("NEEDS", text) for text in entry.needs]
    lines += [("FIX", ", ".join(entry.fixes))] if entry.fixes else []
    lines += [("RULES", ", ".join(entry.rules))] if entry.rules else []
    finding = entry.finding
    if finding is not None:
        told = f"foretrace look {entry.example} --explain {entry.name}: {finding.title}"
        lines += [("EXAMPLE", told), *([("DO", finding.fix)] if finding.fix else [])]
    elif entry.kind == RULE:
        lines += [("EXAMPLE", "no shipped recording shows it")]
    return [Section(f"{entry.name} ({entry.kind}): {entry.title}", labelled=lines)]


def explained(look: Look, name: str) -> list[Section]:
    """What a rule found or a fix predicts on this trace, and the manual."""
    check_names([name], "--explain")
    every = {each.name: plugins.manual(each.check) for each in rules.rules()}
    every |= {each.name: plugins.manual(each.find) for each in fixes.fixes()}
    findings = [_finding(row) for row in look.findings if row.rule == name]
    predicted = [_fix(look, row) for row in look.fixes if row.name == name]
    ignored = any(row.name == name for row in look.ignored)
    told = "It applies, and is ignored." if ignored else "It does not apply to this trace."
    nothing = [] if findings or predicted else [Section("", [told])]
    return [*findings, *predicted, *nothing, Section(f"Manual of {name}", every[name])]


def _finding(row: FindingEntry) -> Section:
    saving = [("saves", text)] if (text := saving_text(row)) else []
    seen = []
    for key, value in row.evidence.items():
        is_time = key.endswith("_ns") and isinstance(value, int | float)
        seen.append((key.removesuffix("_ns"), time_text(value) if is_time else str(value)))
    fix = [("fix", row.fix)] if row.fix else []
    told = [text for text in (row.title, row.detail) if text]
    return Section(f"{row.rule}: {row.state}", told, [*fix, *saving, *seen])


def _fix(look: Look, row: FixEntry) -> Section:
    now = time_text(look.step.ns) if look.step else ""
    lines = [("do", row.order), ("seen", row.why)]
    lines.append(("step", f"{now} to about {time_text(row.ns)} ({interval(row)})"))
    lines += [("first", f"remove {row.first}")] if row.first else []
    lines += [("check", row.risk)] if row.risk else []
    return Section(row.name, labelled=lines)


ABSENT = "(not there)"  # how a part is shown that speaks by being left out
_PIECE, _NAME = 30, 400  # characters shown of one piece, of the whole name
_FIELDS = {"family": "the grammar that the name follows", "role": "what the kernel does"}


def kernel_text(document: DecodedName) -> str:
    """One row per part; of two names, one row per field that differs."""
    if document.other is UNSET or document.changed is UNSET:
        found, before = list[tuple[str, str, str]](), None
        for part in document.parts:
            piece = _cut(plain(part.text), _PIECE) if part.text else ABSENT
            shown = "" if part.text == before else piece
            found.append((shown, part.field, f"{plain(part.meaning)} [{part.certainty}]"))
            before = part.text
        return _drawn([*_head(document), "", *_table(found), *_launched(document)])
    heads = [*_head(document), *_launched(document), "", *_head(document.other)]
    heads += [*_launched(document.other), ""]
    if document.name == document.other.name:
        return _drawn([*heads, "The names are identical."])
    if not document.changed:
        return _drawn([*heads, *_undecoded(document.name, document.other.name)])
    return _drawn([*heads, *_differences(document, document.other, document.changed)])


def _drawn(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines)


def _head(document: DecodedName) -> list[str]:
    """The name, which breaks at blanks alone (people search for it), and what it is in short."""
    name = _cut(plain(document.name), _NAME)
    summary = [f"{plain(document.short)} · family {document.family} · role {document.role}"]
    summary += [] if document.gpu is UNSET else [plain(document.gpu.text)]
    lines = textwrap.wrap(name, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    for said in summary:
        lines += textwrap.wrap(said, WIDTH, break_on_hyphens=False)
    return lines


def _launched(document: DecodedName) -> list[str]:
    found = [] if document.launches is UNSET else document.launches
    return _table([("launched", "", plain(_launch_text(each))) for each in found])


def _launch_text(launch: NameLaunch) -> str:
    """`3 times: grid 8192, block 256 (8 warps), 48 registers, no shared memory; …`."""
    warps = f" ({launch.warps} warps)" if launch.warps else ""
    known = {
        "grid": _sizes(launch.grid),
        "block": launch.block and f"{_sizes(launch.block)} threads{warps}",
        "registers": launch.registers is not None and count_text(launch.registers),
        "shared memory": launch.shared_memory is not None and bytes_text(launch.shared_memory),
    }
    said = ", ".join(f"{name} {text}" for name, text in known.items() if text)
    op = f"; by {launch.op} of {'x'.join(map(str, launch.dims))}" if launch.dims else ""
    return f"{times_text(launch.count)}: {said or 'nothing recorded'}{op}{_liger(launch)}"


def _sizes(values: Sequence[int] | None) -> str:
    """`8192` for 8192, 1, 1."""
    kept = [*values] if values else []
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(count_text, kept))


def _liger(launch: NameLaunch) -> str:
    """What Liger makes of a row: its source takes the next power of two of the columns."""
    if launch.block_size is None or not launch.dims:
        return ""
    columns, size = launch.dims[-1], launch.block_size
    idle = f", of which {size - columns:,} do nothing" if size > columns else ""
    return f". One program for each row: {columns:,} columns give BLOCK_SIZE {size:,}{idle}"


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    lines: list[str] = []
    first, second = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    for row in rows:
        lines += textwrap.wrap(
            row[2],
            WIDTH,
            initial_indent=f"  {row[0]:{first}}  {row[1]:{second}}  ",
            subsequent_indent=" " * (first + second + 6),
            break_on_hyphens=False,
        )
    return lines


def _differences(a: DecodedName, b: DecodedName, changes: tuple[FieldChange, ...]) -> list[str]:
    meanings = _FIELDS | {part.field: plain(part.meaning) for part in (*a.parts, *b.parts)}
    rows = [
        (each.field, f"{_value(each.before)} -> {_value(each.after)}", meanings[each.field])
        for each in changes
    ]
    same = [field for field in a.fields if field in b.fields and a.fields[field] == b.fields[field]]
    after = textwrap.wrap(f"The same in both: {', '.join(same)}", WIDTH) if same else []
    return [f"{plural(len(rows), 'difference')}, first name -> second:", *_table(rows), "", *after]


def _undecoded(a: str, b: str) -> list[str]:
    """Names that differ in text alone: from the first character that is not the same."""
    pairs = enumerate(zip(a, b, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))
    pieces = (_cut(plain(name[max(at - 8, 0) :]), _PIECE) for name in (a, b))
    shown = " and ".join(f"`{piece}`" for piece in pieces)
    return textwrap.wrap(f"No decoded field differs. The names differ from here on: {shown}", WIDTH)


def _value(value: object) -> str:
    return _cut(plain(value_text(value)), _PIECE) if value is not None else "(not stated)"


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
