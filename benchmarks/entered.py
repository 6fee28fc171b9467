"""How many files of foretrace a command enters: those in which a function or module code runs.

    python benchmarks/entered.py                         # one line for each command
    python benchmarks/entered.py --list look llama       # the files of one, with their lines

Each command runs in a fresh process under `sys.setprofile`, with `--no-cache`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import foretrace

HOME = Path(foretrace.__file__).parent
COMMANDS = (
    ("look", "llama"),
    ("check", "llama", "kernels <= 200"),
    ("compare", "llama", "llama_compiled"),
)
# Its last line lists the files of the code that ran, below what the command itself prints.
PROGRAM = """
import json, sys, threading
files = set()
def enter(frame, event, _):
    if event == "call":
        files.add(frame.f_code.co_filename)
threading.setprofile(enter)
sys.setprofile(enter)
from foretrace.cli import main
from foretrace.cli._process import prepare
prepare()
sys.argv = ["foretrace", *sys.argv[1:]]
try:
    main()
finally:
    sys.setprofile(None)
    print("\\n" + json.dumps(sorted(files)))
"""


def entered(command: tuple[str, ...]) -> list[Path]:
    """The files that this command enters, relative to the package."""
    line = [sys.executable, "-c", PROGRAM, *command, "--no-cache"]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    paths = map(Path, json.loads(done.stdout.splitlines()[-1]))
    return sorted(path.relative_to(HOME) for path in paths if path.is_relative_to(HOME))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", nargs="+", metavar="WORD", help="name the files of this command")
    options = parser.parse_args()
    if options.list:
        for path in entered(tuple(options.list)):
            print(f"{len((HOME / path).read_text().splitlines()):5} {path}")
        return
    for command in COMMANDS:
        print(f"{len(entered(command)):4} {' '.join(command)}")


if __name__ == "__main__":
    main()
