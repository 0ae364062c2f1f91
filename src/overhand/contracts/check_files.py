"""A check's own files: what a task must leave alone if its check, turned from red to green, is to prove anything. Pure.

They are the tests, the script that the command runs, and whatever steers the test runner. A file that a command merely
looks at, as in `test -f new.py`, is none of them.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

# files of tests, by convention: folders with all that is in them, and names
TEST_FOLDERS = frozenset(
    {"tests", "test", "__tests__", "spec", "specs", "testdata", "fixtures", "golden", "__snapshots__", "snapshots"}
)
TEST_NAMES = (
    *("test_*", "*_test.*", "*.test.*", "*.spec.*", "*_spec.*", "tests.py", "test.py", "*Test.java", "*Test.kt"),
    *("*Tests.cs", "*.bats", "*.snap", "expected.*", "expected_*", "*.expected", "*.golden"),
)
# files that steer a runner, wherever they are
STEERING_NAMES = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "noxfile.py"),
    *("sitecustomize.py", "usercustomize.py", "*.pth"),
    *("GNUmakefile", "makefile", "Makefile", "*.mk", "justfile", "Justfile", ".justfile", "Taskfile.y*ml", "Rakefile"),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "jest.config.*", "jest.setup.*", "vitest.config.*"),
    *("vitest.workspace.*", "vite.config.*", ".mocharc*", "mocha.opts", "playwright.config.*", "karma.conf.*"),
    *("cypress.config.*", "ava.config.*", "babel.config.*", "build.rs", ".rspec", "phpunit.xml*"),
)
_STEERING_PATHS = (".cargo/config", ".cargo/config.toml")
# files of which only a part steers a runner
PARTLY_STEERING = ("pyproject.toml", "package.json")
_PACKAGE_KEYS = ("scripts", "jest", "mocha", "ava", "vitest", "tap")

_PYTEST = ("pytest", "py.test", "_pytest", "pluggy", "iniconfig")
_RUNNERS = frozenset(
    {
        *("pytest", "py.test", "unittest", "doctest", "nose2", "tox", "nox", "behave", "robot", "trial", "coverage"),
        *(
            "jest",
            "vitest",
            "mocha",
            "ava",
            "tap",
            "playwright",
            "cypress",
            "karma",
            "rspec",
            "phpunit",
            "bats",
            "ctest",
        ),
        *("make", "gmake", "just", "task", "rake"),
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "busybox"})
_INTERPRETERS = frozenset(
    {"python", "pypy", "node", "deno", "bun", "ruby", "perl", "php", "lua", "tsx", "ts-node", "rscript", "osascript"}
)
_LAUNCHERS = {  # programs that run another one: how many of their own words precede it
    **dict.fromkeys(("env", "exec", "command", "builtin", "nohup", "nice", "time", "sudo", "xvfb-run", "stdbuf"), 0),
    **dict.fromkeys(("npx", "bunx", "setsid", "ionice", "chronic", "faketime"), 0),
    **dict.fromkeys(("timeout", "uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pnpm", "yarn", "bundle"), 1),
}
_KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi", "done"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_VERSION = re.compile(r"[\d.]+$")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_TEXTS = (".py", ".md", ".rst", ".txt")  # what doctests can stand in
_INLINE_TESTS = {  # tests that stand in the source itself
    ".rs": re.compile(r"#\[(?:\w+::)*test\b|#\[cfg\(test\)|//[/!]\s*```"),
    ".zig": re.compile(r"^test\b", re.MULTILINE),
}


# what else a reviewer looks at first, by names and by folders; the first group that fits counts
_REVIEWED = {
    "CI": (
        *(".github/*", ".gitlab-ci.y*ml", ".gitlab/*", ".circleci/*", ".travis.yml", "Jenkinsfile*", ".drone.y*ml"),
        *("azure-pipelines.y*ml", "bitbucket-pipelines.yml", ".buildkite/*", ".woodpecker*", ".forgejo/*", ".gitea/*"),
        *("appveyor.yml", ".appveyor.yml", "cloudbuild.y*ml", ".ci/*"),
    ),
    "lock files": (
        *("*.lock", "*.lockb", "*.lockfile", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum"),
        *("requirements*.txt", "constraints*.txt", "Package.resolved"),
    ),
    "settings": (
        *(".git*", ".husky/*", ".githooks/*", ".pre-commit*", "lefthook.y*ml", ".overhand/*", ".claude/*", ".codex/*"),
        *(".gemini/*", ".opencode/*", ".goose/*", ".qwen/*", ".cursor/*", ".cursorrules", ".windsurf/*", ".mcp.json"),
        *("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".vscode/*", ".idea/*", ".devcontainer/*", ".env", ".env.*", ".envrc"),
        *(
            "pyproject.toml",
            "package.json",
            "setup.py",
            "Cargo.toml",
            "go.mod",
            "Gemfile",
            "composer.json",
            "*.gradle*",
        ),
        *("pom.xml", "tsconfig*.json", ".eslintrc*", "eslint.config.*", "mypy.ini", ".mypy.ini", "ruff.toml"),
        *(".ruff.toml", ".flake8", ".coveragerc", "codecov.y*ml", ".codecov.y*ml", "Dockerfile*", "*.Dockerfile"),
        *("docker-compose*", "compose.y*ml", ".tool-versions", "mise.toml", "flake.nix", "CODEOWNERS", ".netrc"),
    ),
}


def review_group(path: str, own: Container[str] = ()) -> str:
    """Why a reviewer looks at a changed file before others; empty if there is no reason. `own` are a check's own."""
    if is_test(path):
        return "tests"
    name = path.rpartition("/")[2]
    if name not in PARTLY_STEERING and (path in own or is_steering(path)):
        return "checks"
    for group, patterns in _REVIEWED.items():
        if any(fnmatch.fnmatchcase(name, one) or fnmatch.fnmatchcase(f"/{path}", f"*/{one}") for one in patterns):
            return group
    return ""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A changed file that is one of a check's own."""

    path: str
    is_script: bool = False  # the command runs it

    @property
    def doubt(self) -> str:
        """Why the check proves nothing."""
        if self.is_script:
            return f"the check runs {self.path}, which this task changed; put the check into a file of its own"
        return f"{self.path} was changed or added, and the check depends on it"


def own_files(command: str, changed: Iterable[str], files: Sequence[str] = ()) -> list[OwnFile]:
    """Those of the changed files that are the check's own; `files` are patterns that its settings name."""
    runs = _Runs()
    runs.read(command)
    found = []
    for path in changed:
        if runs.is_run(path):
            found.append(OwnFile(path, is_script=True))
        elif is_test(path) or is_steering(path) or runs.is_runner(path) or _matches(path, files):
            found.append(OwnFile(path))
    return found


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests, by convention."""
    *folders, name = path.split("/")
    return not TEST_FOLDERS.isdisjoint(folders) or any(fnmatch.fnmatchcase(name, one) for one in TEST_NAMES)


def is_steering(path: str) -> bool:
    """Whether a file, or a part of it, steers a test runner."""
    name = path.rpartition("/")[2]
    if name in PARTLY_STEERING or any(fnmatch.fnmatchcase(name, one) for one in STEERING_NAMES):
        return True
    return any(f"/{path}".endswith(f"/{one}") for one in _STEERING_PATHS)


def has_inline_tests(path: str, text: str) -> bool:
    """Whether tests stand in a source file itself, as Rust has them."""
    pattern = _INLINE_TESTS.get(posixpath.splitext(path)[1])
    return bool(pattern and pattern.search(text))


def steering_part(path: str, text: str) -> object:
    """What of a file steers a runner: all of it, or of some files a part."""
    name = path.rpartition("/")[2]
    try:
        if name == "pyproject.toml":
            return tomllib.loads(text).get("tool")
        if name == "package.json":
            found = json.loads(text)
            return {key: found.get(key) for key in _PACKAGE_KEYS}
    except (ValueError, AttributeError, RecursionError):
        return text
    return text


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of these names the file, or a folder above it."""
    for one in patterns:
        plain = one.rstrip("/")
        if fnmatch.fnmatchcase(path, plain) or path.startswith(f"{plain}/") or fnmatch.fnmatchcase(path, f"{plain}/*"):
            return True
    return False


@dataclass(slots=True)
class _Runs:
    """What a command runs, as far as its text says it; paths are relative to the project."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    runners: set[str] = field(default_factory=set)
    suffixes: tuple[str, ...] = ()  # of all files that hold tests

    def is_run(self, path: str) -> bool:
        return path in self.files or path.endswith(self.suffixes or ("\0",)) or self._is_below(path)

    def _is_below(self, path: str) -> bool:
        return any(path.startswith(f"{folder}/") for folder in self.folders)

    def is_runner(self, path: str) -> bool:
        """A module or program named like the runner, which would be run in its place."""
        first, _, rest = path.partition("/")
        name = path.rpartition("/")[2]
        return bool({first if rest else first.partition(".")[0], name, name.partition(".")[0]} & self.runners)

    def read(self, command: str, folder: str = "") -> None:
        """Take in a command line of the shell."""
        for inner in _SUBSTITUTION.findall(command):
            self.read(inner[0] or inner[1], folder)
        before: list[str] = []
        for line, is_piped in _simple_commands(command):
            words = _without_launchers(line)
            if not words:
                continue
            if words[0] == "cd":
                folder = _below(folder, words[1] if len(words) > 1 else "")
            elif is_piped and words[0] in _SHELLS and len(words) == 1:
                self.files.update(_below(folder, word) for word in before)
            else:
                self._read_words(words, folder)
            before = words

    def _read_words(self, words: list[str], folder: str) -> None:
        program, *rest = words
        if "/" in program:
            self.files.add(_below(folder, program))
        name = posixpath.basename(program).lower()
        plain = _VERSION.sub("", name)
        if name in (".", "source"):
            self.files.update(_below(folder, word) for word in rest[:1])
        elif plain in _SHELLS:
            self._read_shell(rest, folder)
        elif plain in _INTERPRETERS:
            self._read_interpreter(plain, rest, folder)
        elif name in _RUNNERS:
            self._read_runner(name, rest, folder)

    def _read_shell(self, words: list[str], folder: str) -> None:
        for number, word in enumerate(words):
            if word.startswith("-") and "c" in word and not word.startswith("--"):
                self.read(" ".join(words[number + 1 : number + 2]), folder)
                return
            if not word.startswith("-"):
                self.files.add(_below(folder, word))
                return

    def _read_interpreter(self, name: str, words: list[str], folder: str) -> None:
        rest = iter(words)
        for word in rest:
            if word == "-m" and name in ("python", "pypy"):
                self._read_module(list(rest), folder)
                return
            if word in ("-c", "-e", "--eval", "-p", "--print", "-r"):
                return  # the code stands in the command itself
            if word in ("-W", "-X", "--require", "--import"):
                self.files.add(_below(folder, next(rest, "")))
            elif word == "--test":
                self._read_runner("node", list(rest), folder)
                return
            elif word not in ("run", "test", "x") and not word.startswith("-"):
                self.files.add(_below(folder, word))
                return

    def _read_module(self, words: list[str], folder: str) -> None:
        if not words:
            return
        name, *rest = words
        if name in ("coverage", "trace"):
            self.runners.add(name)
            self._read_words(["python", *rest[rest[:1] == ["run"] :]], folder)
        elif name in _RUNNERS:
            self._read_runner(name, rest, folder)
        else:
            self._add_module(name, folder)

    def _add_module(self, name: str, folder: str) -> None:
        path = _below(folder, name.replace(".", "/"))
        self.files |= {f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"}

    def _read_runner(self, name: str, words: list[str], folder: str) -> None:
        """Every file that is named to a runner is what it runs, or says how."""
        self.runners |= {name, *(_PYTEST if name in _PYTEST else ())}
        if name == "coverage":
            self._read_words(["python", *words[words[:1] == ["run"] :]], folder)
        if name == "doctest" or any(word.startswith("--doctest") for word in words):
            self.suffixes += _TEXTS
        for word in words:
            value = word.rpartition("=")[2].partition("::")[0] if "=" in word or "::" in word else word
            path = _below(folder, value)
            if name in ("unittest", "trial") and "/" not in value and not value.startswith("-"):
                self._add_module(value, folder)
                self._add_module(value.rpartition(".")[0] or value, folder)
                self._add_module(value.rpartition(".")[0].rpartition(".")[0] or value, folder)
            self.files.add(path)
            if name not in ("pytest", "py.test", "make", "gmake", "just", "task") and path and not word.startswith("-"):
                self.folders.add(path)


_BUILTINS = frozenset(
    {
        *(".", ":", "[", "alias", "bg", "break", "case", "cd", "command", "continue", "echo", "eval", "exec", "exit"),
        *("export", "false", "fg", "for", "getopts", "hash", "jobs", "kill", "local", "printf", "pwd", "read"),
        *("readonly", "return", "set", "shift", "test", "times", "trap", "true", "type", "ulimit", "umask", "unalias"),
        *("unset", "wait"),
    }
)


def first_program(command: str) -> str:
    """The program that a command begins with, if it has to be on PATH; empty for builtins, paths and expansions."""
    words = next((words for words, _ in _simple_commands(command) if words), [])
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        if words[0].startswith("PATH="):
            return ""
        words = words[1:]
    if not words or words[0] in _BUILTINS or not set(words[0]).isdisjoint("/$`*?~"):
        return ""
    return words[0]


def _below(folder: str, path: str) -> str:
    found = posixpath.normpath(posixpath.join(folder, path))
    return "" if found == "." else found


def _simple_commands(command: str) -> Iterator[tuple[list[str], bool]]:
    """The simple commands of a line, each with whether it reads what the one before it prints."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    piped = False
    output = False  # the next word names a file that is written
    try:
        for word in lexer:
            if word and set(word) <= set("();<>|&"):
                if word.startswith((">", "&>")):
                    output = True
                elif word[0] != "<":
                    yield words, piped
                    words, piped = [], word == "|"
            elif output:
                output = False
            else:
                words.append(word)
    except ValueError:  # an unbalanced quote
        yield command.split(), False
    yield words, piped


def _without_launchers(words: list[str]) -> list[str]:
    """The program that is run in the end, with its arguments."""
    while words:
        name = posixpath.basename(words[0])
        if words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif name in _LAUNCHERS and len(words) > 1:
            skip = 1
            while skip < len(words) and (words[skip].startswith("-") or _ASSIGNMENT.match(words[skip])):
                skip += 1
            words = words[skip + _LAUNCHERS[name] :]
            while words and words[0].replace(".", "").isdigit():  # how nice, or how long
                words = words[1:]
        else:
            break
    return words
