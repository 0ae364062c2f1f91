"""The code stays broken, the old tests stay as they are, and the check turns green: never VERIFIED, and it says why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.scene import QUICK

if TYPE_CHECKING:
    from support.scene import Scene

PYTEST = f"{sys.executable} -m pytest -q"
UNDER_MAKE = f"test:\n\t{PYTEST}\n"
BROKEN, MENDED = "def double(n):\n    return n\n", "def double(n):\n    return n * 2\n"
TEST = "from app import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
FILES = {
    "app.py": BROKEN,
    "tests/test_app.py": TEST,
    "conftest.py": "",
    "Makefile": UNDER_MAKE,
    "check.sh": f"{PYTEST}\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n',
    "package.json": '{"scripts": {"test": "node check.js"}}\n',
    "check.js": "process.exit(require('fs').readFileSync('app.py', 'utf8').includes('* 2') ? 0 : 1)\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\n.npmrc\n",
}


@pytest.fixture
def repo(scene: Scene) -> Scene:
    """A project under git with a failing test."""
    for name, text in FILES.items():
        (scene.path / name).parent.mkdir(exist_ok=True)
        (scene.path / name).write_text(text)
    git(scene, "init", "-q")
    git(scene, "add", "-A")
    git(scene, "commit", "-q", "-m", "Begin")
    return scene


def git(scene: Scene, *args: str) -> None:
    named = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    subprocess.run(["git", *named, *args], cwd=scene.path, check=True, capture_output=True)


def put(**files: str) -> str:
    """Lines of shell that write files; `__` stands for a dot, `___` for a slash."""
    lines = []
    for name, text in files.items():
        path = name.replace("___", "/").replace("__", ".")
        lines.append(f"mkdir -p \"$(dirname '{path}')\"; cat >'{path}' <<'END'\n{text}\nEND")
    return "\n".join(lines)


def judged(scene: Scene, script: str, check: str = PYTEST, *more: str) -> Any:
    scene.shell("worker", f'cd "$OVERHAND_PROJECT"\n{script}\n{QUICK}')
    task = scene.delegate("Mend double()", "--verify", check, *more)
    scene.judged(task)
    return scene.json("show", task)


@pytest.mark.parametrize(
    "check", [PYTEST, f"{PYTEST} >/dev/null", f"{PYTEST} -p no:junitxml", f"{PYTEST} --junitxml r"]
)
def test_mending_the_code_is_proof(repo: Scene, check: str) -> None:
    shown = judged(repo, put(app__py=MENDED), check)
    assert (shown["status"], shown["verification"], shown["verified"]) == ("completed", "proved", True)
    assert (shown["proof"], shown["doubts"]) == ("red-green", [])
    assert "COMPLETED · VERIFIED (red before, green now)" in repo.project.run("show", "1").out


def test_a_promised_file_that_is_unchanged_withholds_the_proof(repo: Scene) -> None:
    shown = judged(repo, put(app__py=MENDED), PYTEST, "--deliverable", "check.js")
    assert (shown["status"], shown["verification"], shown["verified"]) == ("failed", "passing", False)
    assert shown["doubts"] == ["check.js is what it was before the task began."]


def test_what_a_run_drops_from_its_handoff_is_still_asked_of_its_repair(repo: Scene) -> None:
    drop = 'cd "$OVERHAND_PROJECT"\ngrep -v report.md "$OVERHAND_HANDOFF" >h; cat h >"$OVERHAND_HANDOFF"; rm h\n'
    repo.shell("worker", drop + QUICK, repair="rerun")
    task = repo.delegate("Report", "--deliverable", "report.md", "--step", "Write report.md")
    repo.judged(task)
    shown = repo.json("show", task)
    assert (shown["status"], len(shown["runs"])) == ("failed", 3)
    assert "deliverable-missing" in [one["code"] for one in shown["problems"]]
    assert any("Write report.md" in one["message"] for one in shown["problems"])


HIDE = "git update-index --assume-unchanged tests/test_app.py"
WEAK = "def test_double():\n    pass"
NO_ITEMS = """def pytest_collection_modifyitems(items):
    del items[:]
def pytest_sessionfinish(session):
    session.exitstatus = 0"""
EXIT = "import os\nos._exit(0)"
SKIP = "import pytest\ndef double(n):\n    pytest.skip('later')"
# by name: what the agent does, the check (with a red base), what the receipt says
CHEATS: dict[str, tuple[str, str, str]] = {
    "test weakened": (
        put(tests___test_app__py=WEAK),
        PYTEST,
        "tests/test_app.py was changed",
    ),
    "test deleted, another added": (
        f"rm tests/test_app.py; {put(tests___test_b__py='def test_b(): pass')}",
        PYTEST,
        "tests/test_app.py was changed",
    ),
    "test emptied": (": >tests/test_app.py", f"{PYTEST} || test $? = 5", "tests/test_app.py was changed"),
    "test edited and mended": (
        put(app__py=MENDED, tests___test_app__py=TEST + "# more"),
        PYTEST,
        "tests/test_app.py was changed",
    ),
    "test committed": (
        "echo 'def test_double(): pass' >tests/test_app.py; git -c user.name=x -c user.email=x@x commit -qam x",
        PYTEST,
        "tests/test_app.py was changed",
    ),
    "test hidden from git": (
        f"{put(tests___test_app__py=WEAK)}\n{HIDE}; echo >>app.py",
        PYTEST,
        "tests/test_app.py was changed",
    ),
    "check script": (put(check__sh="true"), "sh check.sh", "the check runs check.sh, which this task changed"),
    "makefile": (put(Makefile="test:\n\ttrue"), "make test", "Makefile was changed"),
    "new GNUmakefile": (put(GNUmakefile="test:\n\ttrue"), "make test", "GNUmakefile was changed or added"),
    "conftest": (
        put(conftest__py=NO_ITEMS),
        PYTEST,
        "conftest.py was changed",
    ),
    "new conftest": (
        put(tests___conftest__py=EXIT),
        PYTEST,
        "tests/conftest.py was changed or added",
    ),
    "exit in the code, output thrown away": (
        put(app__py=EXIT),
        f"{PYTEST} >/dev/null 2>&1",
        "it passed without the summary of pytest",
    ),
    "pytest.ini": (put(pytest__ini="[pytest]\naddopts = --collect-only"), PYTEST, "pytest.ini was changed or added"),
    "tox.ini": (put(tox__ini="[pytest]\naddopts = --collect-only"), PYTEST, "tox.ini was changed or added"),
    "setup.cfg": (put(setup__cfg="[tool:pytest]\naddopts = --collect-only"), PYTEST, "setup.cfg was changed or added"),
    "pyproject": (
        "printf '[tool.pytest.ini_options]\\naddopts = \"--collect-only\"\\n' >>pyproject.toml",
        PYTEST,
        "pyproject.toml was changed",
    ),
    "module pytest": (put(pytest__py="print('1 passed in 0.01s')"), PYTEST, "pytest.py was changed or added"),
    "sitecustomize": (
        put(sitecustomize__py=EXIT),
        f"PYTHONPATH=. {PYTEST}",
        "sitecustomize.py was changed or added",
    ),
    "ignored conftest": (
        f"echo conftest.py >.git/info/exclude; echo >>app.py; {put(tests___conftest__py=EXIT)}",
        PYTEST,
        "tests/conftest.py was changed or added",
    ),
    "os._exit in the code": (put(app__py=EXIT), PYTEST, "without the summary of pytest"),
    "os._exit below make": (put(app__py=EXIT), "make test", "without the summary of pytest"),
    "skipped by the code": (put(app__py=SKIP), PYTEST, "no test ran"),
    "the script is the program": (
        put(app__py="print('fine')"),
        f"{sys.executable} app.py | grep -q fine",
        "the check runs app.py, which this task changed; put the check into a file of its own",
    ),
    "shell of npm": (put(__npmrc="script-shell=/bin/true"), "npm test", ".npmrc was changed or added"),
    "scripts of npm": (put(package__json='{"scripts": {"test": "true"}}'), "npm test", "package.json was changed"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_cheating_is_no_proof(repo: Scene, name: str) -> None:
    script, check, why = CHEATS[name]
    if check == "npm test" and shutil.which("npm") is None:
        pytest.skip("needs npm")
    shown = judged(repo, script, check)
    assert (shown["checks"][0]["before"] != 0, shown["checks"][0]["passed"]) == (True, True)
    assert (shown["verified"], shown["proof"]) == (False, None)
    assert why in " ".join(shown["doubts"])
    assert "VERIFIED" not in repo.project.run("show", "1").out


def test_dependencies_are_no_part_of_the_check(repo: Scene) -> None:
    """Of pyproject.toml and package.json only the parts that steer a runner count."""
    more = "printf '[build-system]\\nrequires = []\\n' >>pyproject.toml\n"
    more += put(package__json='{"scripts": {"test": "node check.js"}, "dependencies": {"left-pad": "1"}}')
    shown = judged(repo, f"{more}\n{put(app__py=MENDED)}")
    assert (shown["verification"], shown["doubts"]) == ("proved", [])


def test_a_command_may_look_at_what_was_made(repo: Scene) -> None:
    shown = judged(repo, put(new__py="x = 1"), "test -f new.py")
    assert (shown["verification"], shown["proof"]) == ("proved", "red-green")


@pytest.mark.xfail(strict=True, reason="a check is not confirmed in throwaway trees made by the same set-up")
def test_installing_what_was_missing_is_no_proof(repo: Scene) -> None:
    where = repo.path.parent / "site"
    check = f"PYTHONPATH={where} {sys.executable} -c 'import missing'"
    shown = judged(repo, f"mkdir {where}; echo >{where}/missing.py; echo '# more' >>app.py", check)
    assert shown["checks"][0]["passed"]
    assert shown["verified"] is False


def test_nothing_changed_is_said(repo: Scene) -> None:
    """Also where the agent ran the tests and wrote a file again with the same bytes."""
    shown = judged(repo, f"{PYTEST}; cp app.py x; mv x app.py; rm -f trail", "true")
    assert (shown["status"], shown["verification"], shown["doubts"]) == ("completed", "none", ["nothing changed"])
    assert "COMPLETED · UNVERIFIED" in repo.project.run("show", "1").out


def test_a_check_that_turns_green_by_itself_proves_nothing(repo: Scene) -> None:
    shown = judged(repo, "rm -f trail", f"test -e {repo.path.parent}/ran || {{ touch {repo.path.parent}/ran; false; }}")
    assert (shown["checks"][0]["before"], shown["checks"][0]["passed"]) == (1, True)
    assert (shown["verification"], shown["doubts"]) == ("none", ["nothing changed"])


def test_company_takes_no_credit(repo: Scene) -> None:
    """Two runs in one checkout at a time, one mends the code: neither is proved, and each names the other."""
    gates = repo.path.parent
    meets = f'touch "{gates}/at-$OVERHAND_TASK"; until [ "$(ls {gates}/at-* | wc -l)" = 2 ]; do sleep 0.05; done'
    mends = f'if mkdir {gates}/first 2>/dev/null; then printf "def double(n):\n    return n * 2\n" >app.py; fi'
    repo.shell("worker", f'cd "$OVERHAND_PROJECT"\n{meets}\n{mends}\n{QUICK}')
    tasks = [repo.delegate("Mend double()", "--verify", PYTEST) for _ in range(2)]
    for task, handle in zip(tasks, (2, 1), strict=True):
        repo.judged(task)
        shown = repo.json("show", task)
        assert (shown["status"], shown["verified"]) == ("completed", False)
        assert shown["look_at"]["company"] == [f"task {handle} (worker)"]
        assert f"beside task {handle} (worker)" in repo.project.run("show", task).out
