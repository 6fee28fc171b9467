"""Write `docs/claims.md` from the claims and the recorded climb: `python tools/claims_page.py`."""

from __future__ import annotations

from pathlib import Path

from foretrace.learn.claims import SECTIONS, claims, title
from foretrace.learn.ladder.climb import climb_recorded
from foretrace.show.render.climb import claim_pages, elsewhere, score

PAGE = Path(__file__).parents[1] / "docs" / "claims.md"
HEAD = """# Claims

<!-- Written by `python tools/claims_page.py`; change the claims, not this page. -->

`foretrace lab ladder` checks what the Hugging Face series "Profiling in PyTorch" and four
commentaries on its Part 2 say. Each claim has a number, the sentence it comes from, the program
that the sentence is about, one or more predictions, and for each of them the outcome and what was
measured.
`foretrace lab ladder --claim B21` prints one of them.

| outcome | means |
|---|---|
| holds | the trace shows what the sentence says |
| does not hold | the source says it, and the trace shows otherwise |
| holds on the A100 | it does on the articles' card; this one has another value (see below) |
| imprecise | the sentence sets no limit, has two meanings, or says "may" |
| inconclusive | the trace lacks the data, or versions of software decide it that are not here |

What the card decides are kernel names, times, tiles, registers, vector widths and launch calls.
Sentences of the articles are quoted as they stood in July 2026; those of the commentaries are given
in substance, and counted apart. Every claim is judged on the program of its article: the MLP
computes `g`, `u`, then `gelu(g) * u`. Recordings of `gelu(gate(x)) * up(x)`, the same formula in
another order, judge one sentence, [B15](#b15), which is about any two runs of one kernel name.

`B` numbers are claims, `E` numbers are loose or wrong sentences of the articles and those of the
commentaries, `H` numbers were found on an H200. This page shows the recorded climb, `foretrace
lab ladder --recorded h200`. [The ladder](ladder.md) explains the rungs.

"""


def page() -> str:
    """The whole page as Markdown."""
    document = climb_recorded()
    pages = claim_pages(document)
    counts = [f"{line}." for line in (score(document), *elsewhere(document))]
    parts = [f"{HEAD}{counts[0]}", *counts[1:]]
    for section in SECTIONS:
        numbers = [claim.number for claim in claims() if claim.section == section]
        parts += [f"## {title(section)}", *(pages[number] for number in numbers)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
