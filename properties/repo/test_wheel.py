"""The wheel, built from the sdist, works beside a project whose folders have our folders' names.

An empty environment gets the wheel with all extras. The project beside it owns packages called
``properties``, ``bench`` and ``reports``; every command runs in that project, and the project's own
tests, with our pytest plug-in loaded, still import the project's packages.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SECONDS_MAX = 600
OWN_PACKAGES = ("properties", "bench", "reports")
OWN_TEST = '''"""The user's own test."""

import bench
import properties
import reports


def test_these_are_mine(pytestconfig):
    assert {bench.OWNER, properties.OWNER, reports.OWNER} == {"user"}
    assert pytestconfig.pluginmanager.hasplugin("loopcore")
'''
OWN_PROPERTY = "def test_mine():\n    assert True\n"

POLICY = {
    "schema": "loopcore/policy/1",
    "policy_id": "wheel",
    "evaluator_release": "loopcore-reference/1",
    "run_envelope_sha256": "1" * 64,
    "behavior_spec_sha256": "2" * 64,
    "initial_state_sha256": "3" * 64,
    "started_at_unix_ms": 0,
    "deadline_unix_ms": 1000,
    "max_steps": 5,
    "max_model_calls": 5,
    "max_tool_calls": 5,
    "max_repairs": 5,
    "max_cost_microunits": 5,
    "max_consecutive_no_progress": 5,
    "max_consecutive_repeated_actions": 5,
    "max_input_tokens": None,
    "max_output_tokens": None,
    "max_evidence_receipts": None,
    "max_cycle_length": None,
    "cycle_repeats": None,
}
TRACE: dict[str, object] = {"schema": "loopcore/trace/1", "policy": POLICY, "steps": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """One way to run a command in the user's project, and what it must give."""

    arguments: tuple[str, ...]
    stdin: str = ""
    status: int = 0
    shows: str = ""


# One real run of every command, in this order: a later one may read what an earlier one wrote.
RUNS = {
    "evaluate": CommandRun(arguments=("trace.json",), shows='"terminal":"input_exhausted"'),
    "replay": CommandRun(arguments=("trace.json", "receipt.json"), shows="verif"),
    "serve": CommandRun(
        arguments=(), stdin='{"id":1,"op":"describe"}\n', shows="loopcore/target/1"
    ),
    "lab": CommandRun(arguments=(), shows="completed"),
    "verify": CommandRun(arguments=("--profile", "quick"), shows="held"),
    "mutate": CommandRun(arguments=("--quick",)),
    "simulate": CommandRun(arguments=("--seed", "1")),
    "import": CommandRun(arguments=("logs", "--out", "observations")),
    "audit": CommandRun(arguments=()),
    "bench": CommandRun(
        arguments=("--stepwise", "5", "--tasks", "50", "--applications", "jobs"), shows="level E"
    ),
    "assess": CommandRun(arguments=("--profile", "quick")),
    "report": CommandRun(arguments=("loopcore-out", "--out", "rendered")),
}


def run(arguments: list[str], folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Return the finished process of a command in a folder."""
    return subprocess.run(
        arguments,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def must(arguments: list[str], folder: Path) -> str:
    """Return the output of a command that has to succeed."""
    done = run(arguments, folder)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source archive of this checkout."""
    folder = tmp_path_factory.mktemp("sdist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    must([*build, "--sdist", str(root)], folder)
    (archive,) = folder.glob("loopcore-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that the source archive gives, far from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist")]
    must([*build, "--wheel", str(source)], folder)
    (built,) = (folder / "dist").glob("loopcore-*.whl")
    return built


@pytest.fixture(scope="module")
def binaries(wheel: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of an environment that holds the wheel with all extras."""
    folder = tmp_path_factory.mktemp("environment")
    must([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    programs = folder / "venv" / "bin"
    pins = folder / "pins.txt"
    without_hashes = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins.write_text(
        "".join(line.rstrip("\\ ") + "\n" for line in without_hashes if "--hash" not in line)
    )
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    installer = [uv, "pip", "install", "-p", str(programs / "python")] if uv else None
    installer = installer or [str(programs / "pip"), "install"]
    must([*installer, "-q", "-c", str(pins), f"loopcore[all] @ {wheel.as_uri()}"], folder)
    return programs


@pytest.fixture(scope="module")
def project(root: Path, binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a user's project with packages, tests, logs, a trace and its receipt."""
    folder = tmp_path_factory.mktemp("project")
    for name in OWN_PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text('OWNER = "user"\n')
    (folder / "properties" / "test_mine.py").write_text(OWN_PROPERTY)
    (folder / "test_own.py").write_text(OWN_TEST)
    (folder / "trace.json").write_text(json.dumps(TRACE))
    shutil.copytree(root / "loopcore" / "recordings" / "samples", folder / "logs")
    receipt = must([str(binaries / "loopcore"), "evaluate", "trace.json"], folder)
    (folder / "receipt.json").write_text(receipt)
    return folder


def test_the_wheel_adds_one_name_and_the_suite_under_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"loopcore"}
    rooms = {name.split("/")[1] for name in names if name.startswith("loopcore/")}
    assert {"py.typed", "properties", "mutations", "bench", "reports"} <= rooms
    inside = {name.split("/")[2] for name in names if name.startswith("loopcore/properties/")}
    assert inside == {"__init__.py", "loop"}


def test_every_command_has_a_run(commands: dict[str, str]) -> None:
    assert RUNS.keys() == commands.keys()


@pytest.mark.parametrize("name", RUNS)
def test_every_command_runs_beside_packages_of_the_same_names(
    name: str, binaries: Path, project: Path
) -> None:
    wanted = RUNS[name]
    done = run([str(binaries / "loopcore"), name, *wanted.arguments], project, wanted.stdin)
    assert done.returncode == wanted.status, done.stdout[-3000:] + done.stderr[-3000:]
    assert wanted.shows in done.stdout
    assert "Traceback" not in done.stderr


def test_the_users_tests_import_the_users_packages(binaries: Path, project: Path) -> None:
    shown = must([str(binaries / "python"), "-m", "pytest", "-q"], project)
    assert "2 passed" in shown
