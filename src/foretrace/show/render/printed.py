"""Results as text: `print(foretrace.look("mlp_eager"))` shows what the terminal shows.

Importing this module registers the texts.
"""

from __future__ import annotations

from foretrace.analyze.compare import Comparison
from foretrace.schema.display import writes
from foretrace.schema.documents.look import Look
from foretrace.schema.finding import Findings, Verdicts
from foretrace.show.overview.page import Overview
from foretrace.show.render.comparison import comparison_text
from foretrace.show.render.look_page import first_screen
from foretrace.show.render.terminal import drawn, plain
from foretrace.show.render.verdicts import verdicts_text

MOST_ROWS = 10


@writes(Look)
def look_text(document: Look) -> str:
    """The first screen; the document as it is where it was read from JSON."""
    found = document.screen_of
    return drawn(first_screen(found)) if isinstance(found, Overview) else repr(document)


writes(Comparison)(lambda found: comparison_text(found, MOST_ROWS))
writes(Verdicts)(verdicts_text)


@writes(Findings)
def found_text(findings: Findings) -> str:
    """What was found, in lines; then how many rules found nothing."""
    found = [each for each in findings if each.state == "found"]
    lines = [f"{plain(each.title)}\n  {plain(each.detail)}" for each in found]
    return "\n".join([*lines, f"{len(findings) - len(found)} rules found nothing"])
