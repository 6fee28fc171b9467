"""`foretrace lab roofs --json`: what this GPU or CPU was measured to do."""

from __future__ import annotations

from foretrace.schema.device import MeasuredRoofs

DOCUMENTS = {"roofs": MeasuredRoofs}
