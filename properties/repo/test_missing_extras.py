"""A command whose extra is not installed says so in one sentence; one that needs none works.

Packages are hidden from a process of its own, as if only the core dependencies were there.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS_MAX = 120
HIDDEN = (
    "crosshair",
    "distributed",
    "hypothesis",
    "jinja2",
    "markupsafe",
    "matplotlib",
    "numpy",
    "psycopg",
    "pytest",
    "z3",
)
HIDING = f"""
import sys
for name in {HIDDEN}:
    sys.modules[name] = None
from loopcore.cli import main
sys.exit(main(sys.argv[1:]))
"""
SENTENCES = {
    "assess": "assess needs hypothesis, numpy, jinja2, markupsafe, matplotlib:"
    " pip install 'loopcore[verify,bench,report]'",
    "verify": "verify needs hypothesis: pip install 'loopcore[verify]'",
    "mutate": "mutate needs hypothesis: pip install 'loopcore[verify]'",
    "bench": "bench needs numpy: pip install 'loopcore[bench]'",
    "report .": "report needs numpy, jinja2, markupsafe, matplotlib:"
    " pip install 'loopcore[bench,report]'",
    "audit --tune 0.05": "--tune needs numpy: pip install 'loopcore[bench]'",
}
# Each has something to do: the samples that come with loopcore, or its own reference cases.
WORKING = ("lab", "audit", "simulate --runs 1", "serve", "--help")


def run(words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return how a command ended in a folder where nothing but the core dependencies is seen."""
    return subprocess.run(
        [sys.executable, "-c", HIDING, *words.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.mark.parametrize(("words", "sentence"), SENTENCES.items())
def test_a_missing_extra_is_one_sentence_and_leaves_nothing(
    words: str, sentence: str, tmp_path: Path
) -> None:
    done = run(words, tmp_path)
    assert (done.returncode, done.stderr) == (2, f"loopcore: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", WORKING)
def test_what_needs_no_extra_works_without_any(words: str, tmp_path: Path) -> None:
    done = run(words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "needs" not in done.stderr


def test_every_command_is_tried(commands: dict[str, str]) -> None:
    tried = {words.split()[0] for words in (*SENTENCES, *WORKING)}
    # They read files that a user gives, by code that other commands above use.
    assert set(commands) - tried == {"evaluate", "replay", "import"}
