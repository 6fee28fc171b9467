"""Lists what an installation brings (build/sbom.json, CycloneDX) and asks for known weaknesses.

`make audit` fails when a pinned package has a published vulnerability. Without a way to the
advisory service it says so and passes: the list is written all the same.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).parent.parent
PINS = ROOT / "requirements" / "run.txt"
SBOM = ROOT / "build" / "sbom.json"


def main() -> int:
    """Write the list, audit it, and print one line for each."""
    SBOM.parent.mkdir(exist_ok=True)
    SBOM.write_text(sbom(PINS.read_text().partition("# builds the package")[0]))
    print(f"sbom: {SBOM.relative_to(ROOT)}")
    return audited(_findings())


def sbom(requirements: str) -> str:
    """The bill of materials of pinned requirements."""
    root = Component(name="foretrace", version=metadata.version("foretrace"), type=_LIBRARY)
    bom = Bom(components=[_component(*pin) for pin in pins(requirements)])
    bom.metadata.component = root
    bom.register_dependency(root, bom.components)
    return str(JsonV1Dot6(bom).output_as_string(indent=1)) + "\n"


_LIBRARY = ComponentType.LIBRARY


def pins(requirements: str) -> list[tuple[str, str]]:
    """`(name, version)` of each pinned package."""
    return re.findall(r"^([\w.-]+)==([^;\s\\]+)", requirements, re.MULTILINE)


def _component(name: str, version: str) -> Component:
    purl = PackageURL("pypi", name=re.sub(r"[-_.]+", "-", name.lower()), version=version)
    return Component(
        name=name, version=version, type=_LIBRARY, purl=purl, bom_ref=str(purl),
        licenses=[DisjunctiveLicense(name=_license(name))],
    )  # fmt: skip


def _license(name: str) -> str:
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # a package for another Python
        return "unknown"
    if expression := about.get("License-Expression"):
        return str(expression)
    kinds = [line for line in about.get_all("Classifier", ()) if line.startswith("License ::")]
    return ", ".join(kind.rpartition(" :: ")[2] for kind in kinds) or "unknown"


def _findings() -> list[dict[str, object]]:
    command = [sys.executable, "-m", "pip_audit", "-r", str(PINS), "--disable-pip", "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: list[dict[str, object]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return []
    return found


def audited(found: list[dict[str, object]]) -> int:
    """Say what the service knows; the exit code is 1 when it knows a weakness."""
    asked = [package for package in found if "skip_reason" not in package]
    weak = [package for package in asked if package["vulns"]]
    if not asked:
        print("audit: not done, the advisory service cannot be reached from here")
    for package in weak:
        known = ", ".join(str(each["id"]) for each in package["vulns"])  # type: ignore[attr-defined]
        print(f"audit: {package['name']} {package['version']} is vulnerable: {known}")
    if asked and not weak:
        print(f"audit: nothing known against {len(asked)} packages")
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
