"""A Hugging Face kernel repository, written from this package's own sources:
`python -m foretrace.kernels.hub FOLDER`.

`build.toml` is what kernel-builder reads; `torch-ext` holds the sources, and `build/torch-
universal` the same, as `kernels` loads them. It loads without a network:
`get_local_kernel(Path(FOLDER))`, or `LOCAL_KERNELS="foretrace/geglu=FOLDER"` with
`get_kernel("foretrace/geglu", version=1)`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

NAME = "foretrace-geglu"
PYTHON_NAME = NAME.replace("-", "_")
VERSION = 1
LICENSE = "apache-2.0"

FILES = ("*.py", "device/*.py", "tables/*.json")
# Loaded under a name of its own, the package must import itself by relative names.
_ABSOLUTE = re.compile(r"^([ \t]*from )foretrace\.kernels\.?([\w.]*) import", re.MULTILINE)

_BUILD_TOML = f"""[general]
name = "{NAME}"
version = {VERSION}
license = "{LICENSE}"
backends = ["cpu", "cuda"]

[torch-noarch]
"""

_CARD = f"""---
library_name: kernels
license: {LICENSE}
---

# {NAME}

Gated units for GPUs (GeGLU, SwiGLU, ReGLU), alone and as a whole MLP, in Triton.

```python
from kernels import get_kernel

kernel = get_kernel("foretrace/geglu", version={VERSION}, trust_remote_code=True)
out = kernel.geglu(gate, up)
mlp = kernel.GeGLUMLP.from_module(layer.mlp)
```

Layers for `kernelize`: `GeGLUMLP`, `SwiGLUMLP`, `ReGLUMLP`. All work under `torch.compile` and have
a backward. On a CPU or a GPU before Ampere plain torch runs instead, with one warning.
"""


def write_repository(folder: Path) -> Path:
    """Write the repository into `folder`, replacing an earlier one there, and return it."""
    sources = _sources()
    built = folder / "build" / "torch-universal"
    for place in (folder / "torch-ext" / PYTHON_NAME, built):
        shutil.rmtree(place, ignore_errors=True)
        for name, text in sources.items():
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    (folder / "build.toml").write_text(_BUILD_TOML)
    (folder / "README.md").write_text(_CARD)
    content = "".join(f"{name}\n{text}" for name, text in sources.items())
    # `id` names the loaded module and its operators, so it changes with the sources
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    about = {"id": f"{PYTHON_NAME}_{digest}", "name": NAME, "version": VERSION, "license": LICENSE}
    (built / "metadata.json").write_text(
        json.dumps({**about, "python-depends": [], "backend": {"type": "cuda"}}, indent=2) + "\n"
    )
    return folder


_OURS = ("hub.py", "tune.py")  # need the rest of foretrace


def _sources() -> dict[str, str]:
    """Relative path and text of every file of the repository's package: all but this one."""
    here = Path(__file__).parent
    paths = sorted(path for pattern in FILES for path in here.glob(pattern))
    sources = {path.relative_to(here): path.read_text() for path in paths if path.name not in _OURS}
    return {
        name.as_posix(): _ABSOLUTE.sub(rf"\1{'.' * len(name.parts)}\2 import", text)
        for name, text in sources.items()
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m foretrace.kernels.hub FOLDER")
    print(write_repository(Path(sys.argv[1])))
