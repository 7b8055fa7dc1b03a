"""Run `pip install` and say in short lines what it is doing.

    python .ci/install.py PIP_OPTIONS_AND_REQUIREMENTS...

pip by itself is silent for minutes, or prints hundreds of lines with warnings that ask for nothing.
Here every large download is named with its size, as is the sum of all, and whatever lasts is said
again every few seconds. If pip fails, its errors, the package that it was at and the way out are
printed, and its exit status is returned.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

BEAT = 30.0
"""Seconds after which something is said again; on a terminal, where it takes no line, at once."""
WORTH_A_LINE = re.compile(r"\((\d{2,}(\.\d+)? MB|\d+(\.\d+)? GB)\)")
DOING = re.compile(r"(Collecting|Downloading|Using cached|Building|Preparing|Obtaining) +(\S+)(.*)")
SIZE = re.compile(r"\((\d+(?:\.\d+)?) (kB|MB|GB)\)")
MEGABYTES = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}
RETRIED = re.compile(r"WARNING: Retrying .*/([^/']+)/?$")
BASELESS = re.compile("conflicting dependencies|ResolutionImpossible")
WAY_OUT = """\
Nothing is lost: run the same command again once this is put right, and it goes on from there.
Without a way to the package index, name a mirror: PIP_INDEX_URL=https://mirror/simple make ...
Behind a proxy, set HTTPS_PROXY; for the certificates of a company, PIP_CERT=/path/to/bundle.pem.
"""


@dataclass(slots=True)
class Account:
    """What pip has said so far: what it does now, the package it is at, and its errors.

    Parameters
    ----------
    downloaded : float
        Megabytes.
    unreached : set of str
        Packages for which some index did not answer.
    """

    doing: str = "Starting pip"
    package: str = ""
    downloaded: float = 0.0
    unreached: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)

    def hear(self, line: str) -> None:
        """Take one line of pip, and say those that matter."""
        line = line.strip()
        if found := DOING.match(line):
            verb, what, rest = found.groups()
            if verb == "Obtaining":
                self._now("Reading what bitvec needs")
                return
            name = what.rsplit("/", 1)[-1]
            if verb in ("Collecting", "Downloading", "Building") and name[:1].isalnum():
                self.package = re.split(r"[-\[<>=!~;@ ]", name, maxsplit=1)[0]
            size = WORTH_A_LINE.search(rest)
            if verb == "Downloading" and (parts := SIZE.search(rest)):
                self.downloaded += float(parts[1]) * MEGABYTES[parts[2]]
            self._now(f"{verb} {name}" + (f" {size.group()}" if size else ""))
            if size and verb == "Downloading":
                self._say()
        elif found := RETRIED.match(line):
            self.package = found.group(1)
            self.unreached.add(self.package)
            self._now(f"Asking the package index for {self.package} again")
            self._say()
        elif line.startswith("Installing collected packages"):
            n = line.count(",") + 1
            packages = f"{n} packages" if n > 1 else line.rpartition(" ")[2]
            downloaded = f", {self.downloaded:.0f} MB downloaded" if self.downloaded else ""
            self._now(f"Unpacking {packages}{downloaded}")
            self._say()
        elif line.startswith("ERROR:") or (self.errors and line and not _is_warning(line)):
            self.errors.append(line)

    def beat(self) -> None:
        """Say again what lasts."""
        lasted = f", for {time.monotonic() - self.since:.0f} s ..."
        if sys.stdout.isatty():
            print(f"\r\033[K  {self.doing}{lasted}", end="", flush=True)
        elif time.monotonic() - self.said >= BEAT:
            self._say(lasted)

    def _now(self, doing: str) -> None:
        self.doing, self.since = doing, time.monotonic()

    def _say(self, more: str = " ...") -> None:
        self.said = time.monotonic()
        start, end = ("\r\033[K", "") if sys.stdout.isatty() else ("", "\n")
        print(f"{start}  {self.doing}{more}", end=end, flush=True)


def _is_warning(line: str) -> bool:
    return line.startswith(("WARNING:", "DEPRECATION:", "[notice]"))


def failure(account: Account) -> str:
    """Return what is printed where pip fails."""
    at = f" at the package {account.package}" if account.package else ""
    errors = account.errors
    if account.package in account.unreached:
        # pip takes a version that it could not find for a conflict of versions.
        errors = [
            line for line in errors if line.startswith("ERROR:") and not BASELESS.search(line)
        ]
        at += ", for which a package index did not answer"
    return "\n".join([*errors, f"pip failed{at}. {WAY_OUT}"])


def followed(lines: Iterable[str], account: Account) -> None:
    """Hand the lines to the account, with a beat for as long as they last."""
    over = threading.Event()

    def beats() -> None:
        while not over.wait(1):
            account.beat()

    beating = threading.Thread(target=beats, daemon=True)
    beating.start()
    try:
        for line in lines:
            account.hear(line)
    finally:
        over.set()
        beating.join()
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)


def main(arguments: list[str]) -> int:
    """Run pip of this interpreter."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    account = Account()
    with subprocess.Popen(
        [*command, "--progress-bar", "off", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        assert pip.stdout is not None
        followed(pip.stdout, account)
    if pip.returncode:
        print(failure(account), file=sys.stderr, end="")
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
