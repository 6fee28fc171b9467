"""The foretrace of this machine as a wheel, where no index has it: another machine runs the same.

What records there needs no traces, so the recordings of the package stay here.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from foretrace.base import files
from foretrace.base.version import __version__
from foretrace.read import entries

_PACKAGE = Path(__file__).parents[2]
_DATE = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes


def own_requirement() -> str | Path:
    """What installs this foretrace elsewhere: a version of an index, or a wheel made here."""
    try:
        installed = distribution("foretrace")
    except PackageNotFoundError:
        return f"foretrace=={__version__}"
    place = entries.folder()
    if installed.read_text("direct_url.json") is None or place is None:
        return f"foretrace=={__version__}"
    wheel = place / "remote" / f"foretrace-{__version__}-py3-none-any.whl"
    wheel.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write_bytes(wheel, packed(installed))
    return wheel


def packed(installed: Distribution) -> bytes:
    """The package and what its installation says about it, as a wheel."""
    about, record, buffer = f"foretrace-{__version__}.dist-info", [], io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (*_sources(), *_about(installed, about)):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{name},sha256={digest.decode()},{len(content)}\n")
        record.append(f"{about}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{about}/RECORD", _DATE), "".join(record))
    return buffer.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    for path in sorted(_PACKAGE.rglob("*")):
        name = path.relative_to(_PACKAGE.parent).as_posix()
        data = name.split("/")[1] == "recordings" and path.suffix != ".py"
        if path.is_file() and "__pycache__" not in path.parts and not data:
            yield name, path.read_bytes()


def _about(installed: Distribution, folder: str) -> Iterator[tuple[str, bytes]]:
    for name in ("METADATA", "WHEEL", "entry_points.txt"):
        yield f"{folder}/{name}", (installed.read_text(name) or "").encode()
