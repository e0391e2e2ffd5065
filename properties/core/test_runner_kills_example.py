"""Claim: the first example resumes after `kill -9` from outside, and complains in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from loopcore.runtime import payment_example
from loopcore.runtime.payment_example_service import Ledger, Payment, PaymentService
from properties.core.killing_judge import judged, judged_as_completed
from properties.core.killing_lives import Life
from properties.core.killing_plans import Place

ORDERS = 3
SECONDS_MAX = 60
LOOK_SECONDS = 0.01


def example(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Return the example as somebody starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", payment_example.__name__, "--folder", str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )


def crossings(path: Path) -> int:
    """Return how many requests the service has seen."""
    if not path.exists():
        return 0
    with closing(PaymentService(path)) as service:
        return len(service.ledger().crossings)


def test_the_example_goes_on_after_it_was_killed_from_outside(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    life = Life(
        journals=str(folder / payment_example.JOURNAL),
        service=str(folder / payment_example.SERVICE),
        run_id=payment_example.RUN,
        orders=ORDERS,
    )
    first = example(folder, "--pause-ms", "300")
    until = time.monotonic() + SECONDS_MAX
    while crossings(folder / payment_example.SERVICE) == 0:
        assert time.monotonic() < until, "the example never paid"
        time.sleep(LOOK_SECONDS)
    os.kill(first.pid, signal.SIGKILL)
    assert "run" not in first.communicate()[0]
    assert first.returncode == -signal.SIGKILL
    place = Place(folder=folder)
    judged(*place.left(life))
    second = example(folder, "--pause-ms", "0")
    said, complaint = second.communicate(timeout=SECONDS_MAX)
    assert (second.returncode, complaint) == (0, "")
    assert said.startswith("going on behind event ")
    assert "run payments: completed\n" in said
    assert " 2 starts, " in said
    assert " 0 paid twice\n" in said
    judged_as_completed(*place.left(life, over=True), ORDERS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: --folder"),
        (["--folder", "x", "--orders", "0"], "argument --orders: takes an integer from 1 to 100"),
        (["--folder", "x", "--seed", "-1"], "argument --seed: "),
        (["--folder", "x", "--seed", "9" * 20], "argument --seed: takes an integer from 0 to"),
        (["--folder", "x", "--pause-ms", "1e3"], "argument --pause-ms: takes an integer"),
        (["--folder", "x", "y"], "unrecognized arguments: y"),
        (["--folder", "file"], "file: File exists"),
    ],
)
def test_bad_arguments_are_one_sentence_and_exit_status_2(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert payment_example.main(words) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"loopcore: {said}")
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert os.listdir() == ["file"]


def test_a_folder_of_another_number_of_orders_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--folder", str(tmp_path), "--pause-ms", "0", "--orders"]
    assert payment_example.main([*words, "1"]) == 0
    assert payment_example.main([*words, "2"]) == 2
    assert "created with other tools, grants or rules" in capsys.readouterr().err


def test_a_files_damage_is_one_sentence_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (payment_example.SERVICE, payment_example.JOURNAL):
        (tmp_path / name).write_text("no database, but long enough to be looked at" * 30)
        assert payment_example.main(["--folder", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert said.startswith("loopcore: ")
        assert said.count("\n") == 1


def test_an_interrupt_is_exit_status_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(payment_example, "payment_runner", interrupted)
    assert payment_example.main(["--folder", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "loopcore: interrupted; start it again to go on\n"


def test_the_service_pays_twice_when_it_is_asked_twice_and_its_ledger_says_so(
    tmp_path: Path,
) -> None:
    """The judge can lose: nothing but the caller prevents a second payment."""
    request = Payment(key="k1", identity="i", account="a", amount=10)
    again = Payment(key="k2", identity="i", account="a", amount=10)
    with closing(PaymentService(tmp_path / "bank", lossy=False)) as service:
        service.pay(request)
        service.pay(again)
        ledger: Ledger = service.ledger()
    assert ledger.duplicates() == ("i",)
    with pytest.raises(AssertionError, match="made twice"):
        judged([], ledger)
