"""Writes the hashes of every pinned package into the files of requirements/ that have them.

Change a version, run `.venv/bin/python tools/pins.py`, and commit. `pip install -r` then takes only
files that the package index listed on that day, for every platform. Uses pip's own reader of the
index, whose interface may change with pip. requirements/ladder.txt has no hashes: torch brings
other packages on each platform.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pip._internal.commands import create_command
from pip._internal.index.collector import LinkCollector, _get_index_content, parse_links
from pip._internal.models.link import Link
from pip._internal.utils.urls import url_to_path

FOLDER = Path(__file__).parent.parent / "requirements"
HASHED = ("run.txt", "pip.txt", "dev.txt")
_PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^;\s\\]+)(?P<marker>\s*;[^\\\n]*)?")


def main() -> int:
    """Rewrite each file; a package that the index does not have stays an error."""
    collector = _collector()
    for path in (FOLDER / name for name in HASHED):
        lines = [
            line for line in path.read_text().splitlines() if not line.startswith("    --hash")
        ]
        with ThreadPoolExecutor(8) as threads:
            written = list(threads.map(lambda line: _pinned(line, collector), lines))
        path.write_text("".join(f"{line}\n" for line in written))
        print(f"wrote {path.name}: {sum('==' in line for line in lines)} packages")
    return 0


def _collector() -> LinkCollector:
    command = create_command("download")
    options, _ = command.parse_args([])
    session = command._build_session(options)
    return LinkCollector.create(session, options)


def _pinned(line: str, collector: LinkCollector) -> str:
    found = _PIN.match(line)
    if found is None:
        return line
    hashes = sorted(set(_hashes(found["name"], found["version"], collector)))
    if not hashes:
        raise SystemExit(f"no file of {found[0]} was found")
    marker = f"; {found['marker'].strip(' ;')}" if found["marker"] else ""
    pin = f"{found['name']}=={found['version']}{marker}"
    return " \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in hashes)])


def _hashes(name: str, version: str, collector: LinkCollector) -> Iterator[str]:
    project = re.sub(r"[-_.]+", "-", name).lower()
    for link in _links(project, collector):
        if _is_of(link.filename, project, version):
            yield _digest(link)


def _links(project: str, collector: LinkCollector) -> Iterator[Link]:
    for place in collector.search_scope.get_index_urls_locations(project):
        page = _get_index_content(Link(place), session=collector.session)
        if page is not None:
            yield from parse_links(page)


def _is_of(filename: str, project: str, version: str) -> bool:
    """A wheel or source archive of this version."""
    stem = filename.removesuffix(".tar.gz").removesuffix(".whl").removesuffix(".zip")
    wheel = filename.endswith(".whl")
    parts = stem.split("-") if wheel else stem.rsplit("-", 1)
    if len(parts) < 2 or re.sub(r"[-_.]+", "-", parts[0]).lower() != project:
        return False
    return parts[1] == version


def _digest(link: Link) -> str:
    if link.hash_name == "sha256" and link.hash:
        return link.hash
    if not link.is_file:
        raise SystemExit(f"{link.filename}: the index gives no sha256")
    return hashlib.sha256(Path(url_to_path(link.url_without_fragment)).read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
