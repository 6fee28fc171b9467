"""`python -m foretrace`, and the console script. Imports nothing at first, so that whatever goes
wrong is said in one line.
"""

import sys


def run() -> None:
    """Run the command line and end the process; Ctrl+C while it is still being loaded, and a
    machine without Click, end quietly.
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
    _leave(code)


def _leave(code: int) -> None:
    """End the process. Taking apart what a command has loaded is a fifth of a small trace's time,
    so that is left to the system, unless somebody waits for it: a thread, a profiler, or torch.
    """
    import atexit
    import os
    import threading
    from contextlib import suppress

    if threading.active_count() > 1 or not sys.modules.keys().isdisjoint(("torch", "_lsprof")):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever reads it has gone; `main` has said so
            stream.flush()
    os._exit(code)


def _end(words: str, code: int) -> int:
    print(f"foretrace: {words}", file=sys.stderr)
    return code


if __name__ == "__main__":
    run()
