"""The report: one self-contained HTML file about one trace, or two.

    write_report("out.html", [trace])                   # summary, timeline, kernels, findings
    write_report("out.html", [eager, compiled])         # both timelines aligned, and what changed

`timeline` says where events are drawn, `packing` makes them small, `tables` says the rest,
`page` puts all into one file. The page itself is `page.html`, `page.css` and a script that is
built from `web/`.
"""

from __future__ import annotations

from foretrace.show.html.report import report, write_report

__all__ = ["report", "write_report"]
