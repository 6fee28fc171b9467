"""What words mean, for people (`explain WORD`), and a rule or fix on a trace (`look --explain`)."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec import UNSET
from msgspec.structs import replace

from foretrace.base import plugins
from foretrace.base.errors import UsageError, nearest
from foretrace.base.tables import WORDS, Column, Line, Table, paragraphs
from foretrace.base.terminal import WIDTH, plain
from foretrace.base.units import bytes_text, count_text, plural, time_text, times_text
from foretrace.check import quantities
from foretrace.check.selectors import vocabulary
from foretrace.learn import documents
from foretrace.learn.explained import DecodedName, Manual, ManualEntry, NameLaunch
from foretrace.look import fixes, rules
from foretrace.look.documents import Look
from foretrace.look.lines import interval
from foretrace.look.measured_step import saving_text
from foretrace.look.steering import FIX, RULE, check_names
from foretrace.trace import opening, recording
from foretrace.work import costs, families
from foretrace.work.families import value_text
from foretrace.work.kernel import FieldChange

QUANTITY, OP, DOCUMENT = "quantity", "op", "document"
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


def manual_page(found: Manual, *, listed: bool) -> list[Table]:
    """What the words mean, or a line for everything that has a name."""
    if not listed:
        pages = [_manual(each) for each in found.entries]
        for kernel in found.kernels or ():
            parts = [Line(part.text or " ", part.meaning) for part in kernel.parts]
            pages.append(Table(f"{kernel.short} (kernel name)", lines=parts))
        return pages
    tables = []
    for kind, (many, said) in _KINDS.items():
        rows = [entry for entry in found.entries if entry.kind == kind]
        columns = [Column(kind, "name", WORDS), Column(said, "title", WORDS)]
        tables.append(Table(plural(len(rows), kind, many), columns, rows))
    others = "an op (aten::addmm), a word that predictions count (gemm) or a kernel name"
    more = f"more: foretrace explain WORD, also {others}; on a trace: look --explain NAME"
    return [*tables, paragraphs("", more)]


def _manual(entry: ManualEntry) -> Table:
    lines = [
        Line(_HEADS.get(head, head.upper()), text) for head, text in entry.manual.items() if head
    ]
    lines += [Line("NEEDS", text) for text in entry.needs]
    lines += [Line("FIX", ", ".join(entry.fixes))] if entry.fixes else []
    lines += [Line("RULES", ", ".join(entry.rules))] if entry.rules else []
    finding = entry.finding
    if finding is not None:
        told = f"foretrace look {entry.example} --explain {entry.name}: {finding.title}"
        lines += [Line("EXAMPLE", told), *([Line("DO", finding.fix)] if finding.fix else [])]
    elif entry.kind == RULE:
        lines += [Line("EXAMPLE", "no shipped recording shows it")]
    return Table(f"{entry.name} ({entry.kind}): {entry.title}", lines=lines)


def explained(look: Look, name: str) -> list[Table]:
    """What a rule found or a fix predicts on this trace, and the manual."""
    check_names([name], "--explain")
    every = {each.name: plugins.manual(each.check) for each in rules.rules()}
    every |= {each.name: plugins.manual(each.find) for each in fixes.fixes()}
    page = []
    for row in look.findings:
        if row.rule == name:
            texts = [text for text in (row.title, row.detail) if text]
            lines = [Line("", text) for text in texts]
            lines += [Line("fix", row.fix)] if row.fix else []
            lines += [Line("saves", text)] if (text := saving_text(row)) else []
            for key, value in row.evidence.items():
                is_time = key.endswith("_ns") and isinstance(value, int | float)
                text = time_text(value) if is_time else str(value)
                lines.append(Line(key.removesuffix("_ns"), text))
            page.append(Table(f"{name}: {row.state}", lines=lines))
    for fix in look.fixes:
        if fix.name == name:
            now = time_text(look.step.ns) if look.step else ""
            step = f"{now} to about {time_text(fix.ns)} ({interval(fix)})"
            lines = [Line("do", fix.order), Line("seen", fix.why), Line("step", step)]
            lines += [Line("first", f"remove {fix.first}")] if fix.first else []
            lines += [Line("check", fix.risk)] if fix.risk else []
            page.append(Table(name, lines=lines))
    if not page:
        ignored = any(row.name == name for row in look.ignored)
        text = "It applies, and is ignored." if ignored else "It does not apply to this trace."
        page.append(paragraphs("", text))
    return [*page, paragraphs(f"Manual of {name}", *every[name])]


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
    text = f"{times_text(launch.count)}: {said or 'nothing recorded'}{op}"
    if launch.block_size is None or not launch.dims:
        return text
    # Liger's source takes the next power of two of the columns of a row
    columns, size = launch.dims[-1], launch.block_size
    idle = f", of which {size - columns:,} do nothing" if size > columns else ""
    return f"{text}. One program for each row: {columns:,} columns give BLOCK_SIZE {size:,}{idle}"


def _sizes(values: Sequence[int] | None) -> str:
    """`8192` for 8192, 1, 1."""
    kept = [*values] if values else []
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(count_text, kept))


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    first, second = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    wrap = partial(textwrap.wrap, width=WIDTH, break_on_hyphens=False)
    under = " " * (first + second + 6)
    lines = [
        wrap(text, initial_indent=f"  {a:{first}}  {b:{second}}  ", subsequent_indent=under)
        for a, b, text in rows
    ]
    return [line for each in lines for line in each]


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


GUESSED = ("inferred", "unknown")
UNKNOWN = "unknown"  # the family of a name that no family knows
_WORD = re.compile(r"[\w.:+-]+")


def manual(words: Sequence[str]) -> Manual:
    """Everything that these words name, a rule with its example; without words, all but ops.

    Raises `UsageError` for a word that names nothing.
    """
    every = list(_every())
    if not words:
        return Manual(every)
    entries, kernels = list[ManualEntry](), list[DecodedName]()
    for word in words:
        named = [_with_finding(each) for each in every if each.name == word] + _selector(word)
        named += _ops(word)
        kernel = families.decode(word)
        known = kernel.family != UNKNOWN
        if named:  # `unused_forward` also looks like a kernel of Triton: a guess is not shown
            known = known and any(part.certainty not in GUESSED for part in kernel.parts)
        if known or not (named or _WORD.fullmatch(word)):
            kernels.append(DecodedName.of(kernel))
        elif not named:
            names = [*(each.name for each in every), *vocabulary(), *_prices()]
            near = nearest(word, dict.fromkeys(names), "`foretrace explain` lists the words", 3)
            raise UsageError(f"explain: nothing is named {word!r}; {near}")
        entries += named
    return Manual(entries, kernels=kernels) if kernels else Manual(entries)


def _every() -> Iterator[ManualEntry]:
    """Rules, fixes, quantities of predictions, documents."""
    for rule in rules.rules():
        needs = [advice for need, (_, advice) in rules.NEEDS.items() if need in rule.needs]
        text = by_head(plugins.manual(rule.check))
        entry = ManualEntry(RULE, rule.name, rule.title, text, needs)
        yield replace(entry, fixes=[*rule.fixes], example=rule.example)
    for fix in fixes.fixes():
        needs = [rules.NEEDS[need][1] if need in rules.NEEDS else need for need in fix.needs]
        leading = [rule.name for rule in rules.rules() if fix.name in rule.fixes]
        text = by_head(plugins.manual(fix.find))
        yield ManualEntry(FIX, fix.name, fix.title, text, needs, rules=leading)
    for quantity in quantities.quantities():
        text = {"": quantity.manual, "Means": quantity.manual, "Unit": quantity.measures}
        text["Write"] = quantity.example
        title = re.split(r"[.:;] ", quantity.manual)[0].rstrip(".")
        yield ManualEntry(QUANTITY, quantity.name, title, text)
    for name, (_, first) in documents.every().items():
        command, _, title = first.rstrip(".").partition(": ")
        text = {"": first, "Printed by": command, "Schema": f"foretrace docs schema {name}"}
        yield ManualEntry(DOCUMENT, name, title, text)


def _selector(word: str) -> list[ManualEntry]:
    """A word that says what a quantity is of."""
    if word not in vocabulary() or word in quantities.QUANTITIES:
        return []
    examples = f"count({word}) == 3; time({word}) < 60 us; share({word}) > 40%"
    return [ManualEntry(QUANTITY, word, "what a quantity is of", {"Write": examples})]


def _prices() -> dict[str, costs.CostKind]:
    return {name: kind for kind in costs.kinds() for name in kind.prices}


def _ops(word: str) -> list[ManualEntry]:
    """What an op costs, by its name with or without `aten::`."""
    priced = _prices()
    name = next((each for each in (word, f"aten::{word}") if each in priced), word)
    is_view = recording.is_view(name) and name not in priced
    if name not in priced and not is_view:
        return []
    if is_view:
        name = name if "::" in name else f"aten::{name}"
        text = {"Costs": "nothing where it launches nothing: its result is a view of its input"}
        return [ManualEntry(OP, name, "changes how memory is seen", text)]
    price, role = priced[name].prices[name], families.role_of_op(name)
    text = {"Costs": " ".join((price.__doc__ or "").split())} if price.__doc__ else {}
    conventions = " ".join(inspect.cleandoc(costs.__doc__ or "").split("\n\n")[2].split())
    text["Counted"] = conventions.removeprefix("Conventions: ").partition(" So `bytes`")[0]
    title = f"its kernels have the role {role}" if role != "other" else "an op with a cost"
    return [ManualEntry(OP, name, title, text)]


def by_head(told: Sequence[str]) -> dict[str, str]:
    """The paragraphs of a docstring by their heads: `What it shows`; the first has none."""
    texts: dict[str, str] = {"": told[0]}
    for text in told[1:]:
        head, _, rest = text.partition(": ")
        texts[head] = rest
    return texts


def _with_finding(entry: ManualEntry) -> ManualEntry:
    """With what the rule says about the recording that shows it."""
    rule = next((each for each in rules.rules() if each.name == entry.name), None)
    if entry.kind not in (RULE, FIX) or rule is None or not rule.example:
        return entry
    seen = rules.run(rule, opening.open(rule.example))
    return replace(entry, finding=seen[0])
