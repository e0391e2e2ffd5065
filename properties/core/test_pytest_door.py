"""A user's own pytest run holds a target to the checks, and no mistake in it looks like a pass."""

import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

import pytest

from loopcore.errors import UsageError
from loopcore.testing import check, parametrize_checks
from loopcore.testing.checks import CATALOGUE
from loopcore.testing.checks_controller import CONTROLLER_CATALOGUE
from loopcore.testing.pytest_door import CheckFailed, CheckUnknown, close_targets

RUN_SECONDS_MAX = 120

EVALUATORS = """
    import os
    from loopcore.suite import load_target
    ours = load_target()

    def right(policy, steps):
        return ours.evaluate(policy, steps)

    def late(policy, steps):
        if isinstance(policy, dict) and isinstance(policy.get("deadline_unix_ms"), int):
            policy = {**policy, "deadline_unix_ms": policy["deadline_unix_ms"] + 1}
        return ours.evaluate(policy, steps)

    def dead(policy, steps):
        os._exit(3)

    class Forever:
        def describe(self):
            return {"needs": ["call", "arguments"]}
        def start(self, limits):
            pass
        def observe(self, seen):
            return {"decision": "continue"}
"""
# A user's file; only three checks are selected, so that the runs are short.
USERS_FILE = """
    from loopcore.testing import parametrize_checks

    @parametrize_checks({arguments})
    def test_evaluator(check):
        check()
"""
THREE = "E06 or E12 or E14"
TWO_OF_CONTROLLERS = "C07 or C01"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with evaluators and nothing else."""
    (tmp_path / "theirs.py").write_text(textwrap.dedent(EVALUATORS), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    return tmp_path


def users_file(folder: Path, arguments: str = "") -> None:
    """Write the user's test file."""
    text = textwrap.dedent(USERS_FILE).format(arguments=arguments)
    (folder / "test_theirs.py").write_text(text, encoding="utf-8")


def run_pytest(folder: Path, *options: str) -> tuple[int, str]:
    """The exit status of a user's pytest run, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_each_check_is_a_test_and_the_target_is_named(folder: Path) -> None:
    users_file(folder)
    status, output = run_pytest(folder, "-k", THREE, "--loopcore-target", "theirs:right")
    assert status == 0, output
    assert "loopcore: target theirs:right, kind evaluator, profile quick, seed 0" in output
    assert "PASSED test_theirs.py::test_evaluator[E06-" in output
    # Damage to JSON text never reaches a target of values: skipped, with the reason.
    assert "2 passed, 1 skipped" in output
    assert "E14 strict-text is not applicable: the target is given values" in output


@pytest.mark.slow
def test_without_options_the_built_in_evaluator_is_meant(folder: Path) -> None:
    users_file(folder)
    status, output = run_pytest(folder, "-k", "E12")
    assert status == 0, output
    assert "loopcore: target" not in output


def test_a_broken_property_fails_with_a_command_that_reproduces_it(folder: Path) -> None:
    users_file(folder, '"theirs:late"')
    status, output = run_pytest(folder, "-k", THREE, "--loopcore-seed", "3")
    assert status == 1, output
    assert "1 failed, 1 passed, 1 skipped" in output
    assert "E06 boundaries is broken: " in output
    command = "reproduce: loopcore verify theirs:late --only E06 --profile quick --seed 3"
    assert command in output


@pytest.mark.slow
def test_a_dead_target_is_a_failure_and_no_expected_one(folder: Path) -> None:
    users_file(folder, '"theirs:dead", {"E06": "it dies"}')
    status, output = run_pytest(folder, "-k", "E06")
    assert status == 1, output
    assert "CheckUnknown" in output


@pytest.mark.slow
def test_an_expected_failure_is_strict(folder: Path) -> None:
    users_file(folder, '"theirs:late", {"E06": "the deadline is inclusive"}')
    status, output = run_pytest(folder, "-k", "E06")
    assert status == 0, output
    assert "1 xfailed" in output
    assert "the deadline is inclusive" in output
    users_file(folder, '"theirs:right", {"E06": "the deadline is inclusive"}')
    status, output = run_pytest(folder, "-k", "E06")
    assert status == 1, output
    assert "[XPASS(strict)] the deadline is inclusive" in output


def test_an_expected_failure_that_names_no_property_is_an_error(folder: Path) -> None:
    users_file(folder, '"theirs:right", {"E99": "a typing mistake"}')
    status, output = run_pytest(folder)
    assert status == 2, output
    assert "an expected failure names 'E99'" in output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--loopcore-target", "nowhere:evaluate"), "no module nowhere"),
        pytest.param(
            ("--loopcore-target", "theirs:right", "--loopcore-command", "x"),
            "not both",
            marks=pytest.mark.slow,
        ),
        pytest.param(("--loopcore-profile", "hasty"), "no profile 'hasty'", marks=pytest.mark.slow),
        pytest.param(
            ("--loopcore-seed", "abc"), "--loopcore-seed takes an integer", marks=pytest.mark.slow
        ),
        pytest.param(("--loopcore-kind", "loops"), "no kind 'loops'", marks=pytest.mark.slow),
        (("--loopcore-kind", "controller", "--loopcore-target", "theirs:gone"), "cannot load"),
    ],
)
def test_a_wrong_option_ends_the_run_before_any_test(
    folder: Path, options: tuple[str, ...], sentence: str
) -> None:
    users_file(folder)
    status, output = run_pytest(folder, *options)
    assert status == 4, output
    assert sentence in output
    assert "collected" not in output


@pytest.mark.slow
def test_options_without_any_check_to_follow_them_are_an_error(folder: Path) -> None:
    (folder / "test_other.py").write_text("def test_it(): pass\n", encoding="utf-8")
    status, output = run_pytest(folder, "--loopcore-target", "theirs:right")
    assert status != 0, output
    assert "no test of loopcore's checks was collected" in output
    assert run_pytest(folder)[0] == 0
    users_file(folder)
    status, output = run_pytest(folder, "-k", "test_it", "--loopcore-target", "theirs:right")
    assert status != 0, output


def test_a_check_is_a_plain_function_that_speaks_by_exceptions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    try:
        check("E12")
        check("E12", "theirs:right", "quick", 5)
        with pytest.raises(CheckFailed, match="E06 boundaries is broken"):
            check("E06", "theirs:late")
        with pytest.raises(CheckUnknown, match="E06 boundaries is unknown: the target failed"):
            check("E06", "theirs:dead")
        with pytest.raises(unittest.SkipTest):
            check("E14", "theirs:right")
        with pytest.raises(UsageError, match="no property 'E99'"):
            check("E99")
        with pytest.raises(UsageError, match="no profile"):
            check("E12", profile="hasty")
    finally:
        close_targets()


def test_the_check_function_needs_no_pytest() -> None:
    source = "import sys; from loopcore.testing import check; check('E12'); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=True,
    )
    assert "hypothesis" in done.stdout.split()
    assert "pytest" not in done.stdout.split()


def test_every_property_of_the_catalogue_becomes_a_test() -> None:
    mark = parametrize_checks().mark
    names = [parameter.id for parameter in mark.args[1]]
    assert names == [f"{each.id}-{each.name}" for each in CATALOGUE]


def test_every_property_of_controllers_becomes_a_test_of_that_kind() -> None:
    mark = parametrize_checks(kind="controller").mark
    names = [parameter.id for parameter in mark.args[1]]
    assert names == [f"{each.id}-{each.name}" for each in CONTROLLER_CATALOGUE]
    with pytest.raises(UsageError, match="no such property of controllers"):
        parametrize_checks("D", {"E06": "of the other kind"}, kind="controller")
    with pytest.raises(UsageError, match="no kind 'loop'"):
        parametrize_checks(kind="loop")


@pytest.mark.slow
def test_a_user_s_controller_is_held_to_the_checks_and_expected_failures_are_strict(
    folder: Path,
) -> None:
    words = '"theirs:Forever", {"C01": "it never stops"}, kind="controller"'
    users_file(folder, words)
    status, output = run_pytest(folder, "-k", TWO_OF_CONTROLLERS)
    assert status == 0, output
    assert "1 passed" in output
    assert "1 xfailed" in output
    users_file(folder, words.replace("C01", "C07"))
    status, output = run_pytest(folder, "-k", TWO_OF_CONTROLLERS)
    assert status == 1, output
    assert "[XPASS(strict)] it never stops" in output
    assert "C01 step-bound is broken: " in output
    command = "reproduce: loopcore verify --kind controller theirs:Forever --only C01"
    assert command in output


@pytest.mark.slow
def test_the_options_name_a_controller_and_checks_of_evaluators_are_left_out(folder: Path) -> None:
    users_file(folder, 'kind="controller"')
    text = (folder / "test_theirs.py").read_text(encoding="utf-8")
    more = text.replace('kind="controller"', "").replace("test_evaluator", "test_other")
    (folder / "test_more.py").write_text(more, encoding="utf-8")
    named = ("--loopcore-kind", "controller", "--loopcore-target", "theirs:Forever")
    status, output = run_pytest(folder, "-k", "C07 or E12", *named)
    assert status == 0, output
    assert "loopcore: target theirs:Forever, kind controller, profile quick, seed 0" in output
    assert "1 passed" in output
    assert "E12" not in output
    (folder / "test_theirs.py").unlink()
    status, output = run_pytest(folder, "-k", "E12", *named)
    assert status != 0, output
    assert "no test of loopcore's checks was collected" in output


def test_a_check_of_a_controller_is_the_same_plain_function(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    try:
        check("C06", "B")
        with pytest.raises(CheckFailed, match="C06 rejected-finishes is broken"):
            check("C06", "consecutive-3")
        with pytest.raises(unittest.SkipTest, match="C02 productive-runs is not applicable"):
            check("C02", "theirs:Forever")
    finally:
        close_targets()
