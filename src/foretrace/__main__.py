"""`python -m foretrace`, and the console script. Imports nothing at first, so that whatever goes
wrong is said in one line.
"""

import sys


def run() -> None:
    """Run the command line; Ctrl+C while it is still being loaded, and a machine without Click, end
    quietly.
    """
    try:
        from foretrace.cli import main
        from foretrace.cli._process import prepare

        prepare()
        code = main()
    except KeyboardInterrupt:
        code = _end("stopped", 130)
    except ModuleNotFoundError as missing:
        if missing.name != "click":
            raise
        code = _end(
            "the command line needs click: pip install click (capturing from Python needs torch "
            "alone)",
            4,
        )
    sys.exit(code)


def _end(words: str, code: int) -> int:
    print(f"foretrace: {words}", file=sys.stderr)
    return code


if __name__ == "__main__":
    run()
