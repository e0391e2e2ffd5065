"""`loopcore verify --kind store`: by name, by factory, and whatever goes wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from loopcore.cli import main
from loopcore.results import VerifyResult, read_result
from loopcore.testing.store_targets import open_store
from loopcore.testing.targets import TargetSpec

# A store of a user's own that is right, and ones that are not.
STORES = """
    import os
    import time
    from loopcore.store.contract import StaleHead
    from loopcore.store.memory import MemoryStore
    class Own(MemoryStore):
        def __init__(self, location, now_ms):
            super().__init__(now_ms)
    class OwnStale(StaleHead):
        pass
    class Translated(Own):
        def append(self, run_id, expected_head, epoch, events):
            try:
                return super().append(run_id, expected_head, epoch, events)
            except StaleHead as error:
                raise OwnStale(run_id, expected=expected_head, found=error.found)
    class Forgets(Own):
        def read(self, run_id, after=0):
            return iter(list(super().read(run_id, after))[:-1])
    class Raises(Own):
        def append(self, run_id, expected_head, epoch, events):
            raise ValueError("no idea")
    class Dies(Own):
        def append(self, run_id, expected_head, epoch, events):
            os._exit(3)
    class Prints(Own):
        def head(self, run_id):
            print("looking at", run_id[:4])
            return super().head(run_id)
    class Small:
        def head(self, run_id):
            return None
    def small(location, now_ms):
        return Small()
    def fails(location, now_ms):
        raise RuntimeError("no licence")
    nothing = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the stores in it, as which commands are started."""
    (tmp_path / "their_stores.py").write_text(textwrap.dedent(STORES), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verified(*words: str) -> tuple[int, VerifyResult]:
    """Return the exit status and the result of a command."""
    status = main(["verify", "--kind", "store", "--profile", "quick", "--jobs", "1", *words])
    return status, read_result(Path("loopcore-out/verify/result.json"), VerifyResult)


def verdicts(result: VerifyResult) -> dict[str, str]:
    """Return what was said of each property."""
    return {each.id: each.verdict for each in result.properties}


def test_the_default_store_is_sqlite_and_its_folder_is_removed(here: Path) -> None:
    target = open_store(TargetSpec(kind="store"))
    assert (target.name, target.durable) == ("sqlite", True)
    target.close()
    assert here.is_dir()


@pytest.mark.parametrize("name", ["memory", "sqlite"])
def test_a_built_in_store_holds_its_invariants(
    here: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, result = verified(name, "--only", "S03,S10")
    assert status == 0
    last = "held" if name == "sqlite" else "not applicable"
    assert verdicts(result) == {"S03": "held", "S10": last}
    assert f"target   {name} " in capsys.readouterr().out
    assert (here / "loopcore-out/verify/junit.xml").is_file()


@pytest.mark.postgres
def test_postgresql_holds_its_invariants(here: Path) -> None:
    status, result = verified("postgres", "--only", "S01,S02")
    assert (status, set(verdicts(result).values())) == (0, {"held"})
    assert here.is_dir()


def test_postgresql_without_a_server_is_one_clear_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPCORE_POSTGRES_DSN", raising=False)
    assert main(["verify", "--kind", "store", "postgres"]) == 2
    assert "needs LOOPCORE_POSTGRES_DSN" in capsys.readouterr().err
    assert here.is_dir()


@pytest.mark.parametrize("name", ["Own", "Translated"])
def test_a_users_own_store_that_is_right_holds(here: Path, name: str) -> None:
    status, result = verified(f"their_stores:{name}", "--only", "S01,S09")
    assert (status, verdicts(result)) == (0, {"S01": "held", "S09": "held"})
    assert here.is_dir()


def test_a_wrong_store_is_broken_with_a_file_that_reproduces_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, result = verified("their_stores:Forgets", "--only", "S06")
    assert (status, verdicts(result)) == (1, {"S06": "broken"})
    name = result.properties[0].counterexample
    assert name is not None
    path = here / "loopcore-out/verify/counterexamples" / name
    words = "loopcore verify --kind store their_stores:Forgets --rerun loopcore-out/verify"
    assert f"{words}/counterexamples/{name}" in capsys.readouterr().out
    again = ["verify", "--kind", "store", "--rerun", str(path)]
    assert main([*again, "their_stores:Forgets"]) == 1
    assert main([*again, "their_stores:Own"]) == 0


@pytest.mark.parametrize(("name", "words"), [("Raises", "no idea"), ("Dies", "status 3")])
def test_a_store_that_fails_makes_the_property_unknown_and_breaks_totality(
    here: Path, name: str, words: str
) -> None:
    status, result = verified(f"their_stores:{name}", "--only", "S01")
    assert (status, verdicts(result)) == (1, {"S01": "unknown", "E15": "broken"})
    assert words in (result.properties[1].reason or "")
    assert here.is_dir()


def test_what_a_store_prints_is_a_note(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified("their_stores:Prints", "--only", "S02")[0] == 0
    assert "note: the target printed 'looking at case" in capsys.readouterr().out
    assert here.is_dir()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nonsense",), "there is no store 'nonsense'; there are memory, sqlite, postgres"),
        (("no module:x",), "a store is named package.module:factory"),
        (("nowhere:x",), "there is no module nowhere"),
        (("their_stores:x",), "their_stores has no x"),
        (("their_stores:nothing",), "is no factory"),
        (("their_stores:small",), "has no method append"),
        (("their_stores:fails",), "no licence"),
        (("--command", "cat"), "--command is not for stores"),
        (("--only", "C01"), "there is no property 'C01'; there are S01"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_clear_sentence(
    here: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--kind", "store", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert here.is_dir()
