"""A Chromium for the tests: the one on the PATH, or Debian's, installed once where that is allowed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

WINDOW = 1400, 1100
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--force-device-scale-factor=1",
)
ABSENT = "no Chromium here, and none could be installed: apt-get install chromium chromium-driver"


def found() -> tuple[str, str] | None:
    """The browser and its driver."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def ready() -> tuple[str, str] | None:
    """The same, after trying to install them: quietly, and once however many processes run the
    tests.
    """
    if os.environ.get("FORETRACE_NO_BROWSER"):
        return None
    with open(Path(tempfile.gettempdir()) / "foretrace-chromium.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failed = Path(f"{lock.name}.failed")
        if (
            found() is None
            and os.geteuid() == 0
            and shutil.which("apt-get")
            and not failed.exists()
            and not _install()
        ):
            failed.touch()
    return found()


def _install() -> bool:
    quiet: Any = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        "timeout": 180,
    }
    install = [
        "apt-get",
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        "chromium",
        "chromium-driver",
    ]
    try:
        return subprocess.run(install, **quiet).returncode == 0 or (
            subprocess.run(["apt-get", "update", "-qq"], **quiet).returncode == 0
            and subprocess.run(install, **quiet).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def start(programs: tuple[str, str], profile: Path, *more: str) -> Any:
    """A driver with a fresh profile that keeps the console's messages and the requests, and lets
    dialogs stand.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (
        *FLAGS,
        f"--window-size={WINDOW[0]},{WINDOW[1]}",
        f"--user-data-dir={profile}",
        *more,
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.unhandled_prompt_behavior = "ignore"
    return webdriver.Chrome(options=options, service=Service(programs[1]))
