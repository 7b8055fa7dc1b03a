"""Follow the README on a fresh Debian: a new user, a clean clone, `make quickstart`, `make test`.

    python tests/systems/run.py [--suite SUITE] [--python PYTHON] [--command COMMAND] [--save]

The system is made under `.versions/` by debootstrap, with the packages that the README names and no
other; Debian's unstable suite has the newest Python, and with --python its other one. It uses this
machine's names, certificates, and the settings of pip and proxies in the environment. Without
debootstrap, Linux, or root that may mount, nothing is run, and one line says so. --save keeps what
became of the tests for the docs. Exits with 1 if a command fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from tests.versions import suites  # noqa: E402

CACHE = ROOT / ".versions"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("python3", "python3-venv", "make", "git", "ca-certificates")
COMMANDS = ("make quickstart", "make test")
REPORT = "home/reader/report.xml"
HANDED_ON = ("etc/hosts", "etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt")
SETTINGS = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TORCH_INDEX")
ENTERED = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot --userspec=reader:reader "$1" /bin/sh -c "$2"
"""
"""In a namespace of its own, whose mounts end with it."""


def obstacle() -> str:
    """Return why no system can be made here, or nothing."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if os.geteuid() != 0:
        return "it needs root, to change into the system that it makes"
    missing = [name for name in ("debootstrap", "unshare", "chroot") if not shutil.which(name)]
    if missing:
        return f"{missing[0]} is not installed"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "root may not mount here, as in many containers" if tried.returncode else ""


def system(folder: Path, suite: str) -> None:
    """Make a system with a user of its own, unless it is there."""
    finished = folder / "made-by-bitvec"  # written last
    if not finished.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        include = f"--include={','.join(PACKAGES)}"
        _run("debootstrap", "--variant=minbase", include, suite, str(folder), MIRROR)
        _run("chroot", str(folder), "useradd", "--create-home", "--shell", "/bin/sh", "reader")
        finished.touch()
    for name in HANDED_ON:
        if (Path("/") / name).is_file():
            shutil.copyfile(Path("/") / name, folder / name)


def pythons(folder: Path, python: str) -> str:
    """Install another Python if one is named, and return the version of the one that is used."""
    if python:
        _run("chroot", str(folder), "apt-get", "install", "-y", "-qq", python, f"{python}-venv")
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    command = ["chroot", str(folder), python or "python3", "-c", asked]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def clone(folder: Path) -> None:
    """Put a clean clone of the last commit into the user's home."""
    home = folder / "home" / "reader"
    shutil.rmtree(home / "bitvec", ignore_errors=True)
    (folder / REPORT).unlink(missing_ok=True)
    _run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(home / "bitvec"))
    _run("chroot", str(folder), "chown", "-R", "reader:reader", "/home/reader")


def entered(folder: Path, command: str) -> int:
    """Run a command in the clone as the user, and return its exit status."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", ENTERED, "sh", folder, f"cd ~/bitvec && {command}"],
        env={
            **settings,
            "PYTEST_ADDOPTS": f"--junitxml=/{REPORT}",
            "HOME": "/home/reader",
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        },
        check=False,
    )
    return done.returncode


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main(arguments: list[str]) -> int:
    """Make the system, run the commands, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", default="unstable", help="of Debian, unstable by default")
    parser.add_argument("--command", action="append", help=f"instead of {' and '.join(COMMANDS)}")
    parser.add_argument("--python", default="", help="as python3.15, instead of Debian's default")
    parser.add_argument("--save", action="store_true", help="keep the results for the docs")
    options = parser.parse_args(arguments)
    if why := obstacle():
        print(f"Debian {options.suite}: skipped, since {why}")
        return 0
    folder = CACHE / f"debian-{options.suite}"
    try:
        system(folder, options.suite)
        version = pythons(folder, options.python)
        clone(folder)
    except subprocess.CalledProcessError as error:
        print(f"Debian {options.suite}: not made, {error}", file=sys.stderr)
        return 1
    lines, failed = [], 0
    for command in options.command or COMMANDS:
        start = time.monotonic()
        status = entered(
            folder, f"{command} PYTHON={options.python}" if options.python else command
        )
        failed += status != 0
        outcome = "passed" if status == 0 else f"failed with {status}"
        took = f"{time.monotonic() - start:.0f} s"
        lines.append(f"Debian {options.suite}, Python {version}: {command}: {outcome}, {took}")
    print("\n".join(lines))
    if options.save and (folder / REPORT).is_file():
        suites.keep([suites.read(version, f"pinned, Debian {options.suite}", folder / REPORT)])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
