"""The report: one self-contained HTML file about one trace, or several.

`timeline` says where events are drawn, `view_data` and `trace_facts` say the rest, `page` puts all
into one file. The page is `page.html`, `page.css` and a script that is built from `web/`.
"""

from __future__ import annotations

from foretrace.pages.report import report, write_report

__all__ = ["report", "write_report"]
