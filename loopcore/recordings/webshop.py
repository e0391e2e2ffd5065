"""WebShop: the printed log of ReAct episodes in the outputs of a Jupyter notebook.

Theory of operation: all that the code cells printed is one text. An episode begins with a rule of
dashes and its number; in it every `Action:` line with its `Observation:` is one turn. `reset` is
the runner's, `think[…]` is thought and dispatches nothing, `search[…]` and `click[…]` are the
agent's actions. The score that the shop prints ends the episode; a score of 1 is success.

Choices: an episode without a score used up the runner's turns (15 with the reset) and is a failure,
as the runner itself counts it; it is censored when it used them all. An action that the shop
refuses carries the error class invalid_action. A running summary is not part of an observation.

Source: spec control, section 5.
"""

from __future__ import annotations

import re
from decimal import Decimal

from loopcore.recordings.building import (
    NO_CALL,
    Call,
    Imported,
    Turn,
    costs_known,
    has_call,
    observations,
)
from loopcore.recordings.model import Listed, Run
from loopcore.recordings.nodes import Node, malformed

FORMAT = "WebShop"
NOTEBOOK_VERSION = 4
TURNS_MAX = 15
SIGNAL = "none: the shop shows no measure before its score"
_EPISODE = re.compile(r"^-----------------\n(\d+)\n", re.MULTILINE)
_STEP = re.compile(r"^Action: (.*)\nObservation: ?", re.MULTILINE)
_SUMMARY = re.compile(r"^\d+ [\d.e-]+ [\d.e-]+ [\d.e-]+\n-------------$", re.MULTILINE)
_SCORE = re.compile(r"^Your score \(min 0\.0, max 1\.0\): (\d+(?:\.\d+)?(?:e-?\d+)?)\s*$")
_ACTION = re.compile(r"\s*(\w+)\[(.*)\]\s*")
_REFUSED = "Invalid action!"


def matches(root: Node) -> bool:
    """Return whether the document has this format's outline."""
    return "nbformat" in (root.fields() or {})


def read(root: Node, *, thoughts_are_calls: bool = False) -> Imported:
    """Return the runs of one notebook; episodes without an agent call are listed.

    With `thoughts_are_calls` a `think[…]` is an action like any other, as the runner prints it.

    Errors: InputError `malformed` for another notebook version, for a notebook without an episode
    and for an episode number that stands there twice.
    """
    version = root.field("nbformat")
    if version.count() != NOTEBOOK_VERSION:
        version.reject(f"unknown notebook version {version.count()}; known is {NOTEBOOK_VERSION}")
    text = _printed(root)
    marks = list(_EPISODE.finditer(text))
    if not marks:
        raise malformed(root.file, "$.cells", "no output holds a WebShop episode")
    imported = Imported()
    seen: set[str] = set()
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        name = mark[1]
        if name in seen:
            raise malformed(root.file, f"episode {name}", "stands there twice")
        seen.add(name)
        run = _run(name, text[mark.end() : end], root.file, thoughts_are_calls)
        if isinstance(run, Run):
            imported.runs.append(run)
        else:
            imported.listed.append(run)
    return imported


def _printed(root: Node) -> str:
    """Return everything that the code cells printed, in order."""
    parts: list[str] = []
    for cell in root.field("cells").array():
        outputs = cell.optional("outputs")
        for output in [] if outputs is None else outputs.array():
            text = output.optional("text")
            if output.field("output_type").text() != "stream" or text is None:
                continue
            if isinstance(text.value, str):
                parts.append(text.value)
            else:
                parts.extend(line.text() for line in text.array())
    return "".join(parts)


def _run(name: str, text: str, file: str, thoughts_are_calls: bool) -> Run | Listed:
    summary = _SUMMARY.search(text)
    steps = list(_STEP.finditer(text, 0, summary.start() if summary else len(text)))
    turns: list[Turn] = []
    score: Decimal | None = None
    for number, step in enumerate(steps):
        last = number + 1 == len(steps)
        end = (summary.start() if summary else len(text)) if last else steps[number + 1].start()
        observed = text[step.end() : end].strip("\n")
        found = _SCORE.match(observed)
        if found:
            score = Decimal(found[1])
        if number or step[1] != "reset":
            turns.append(_turn(step[1], observed, thoughts_are_calls))
    success = score == 1
    if not has_call(turns):
        return Listed(
            source=file, item=f"episode {name}", reason=NO_CALL, set=FORMAT, success=success
        )
    return Run(
        set=FORMAT,
        format=FORMAT,
        run_id=name,
        task=name,
        trial=0,
        model=None,
        success=success,
        outcome="no score" if score is None else f"score {score}",
        censored=score is None and len(steps) >= TURNS_MAX,
        signal=SIGNAL,
        observations=observations(turns, progress_known=False),
        source=file,
        cost_known=costs_known(turns),
    )


def _turn(action: str, observed: str, thoughts_are_calls: bool) -> Turn:
    # The model's text limit cuts some thoughts off before their bracket closes.
    if action.lstrip().startswith("think") and not thoughts_are_calls:
        return Turn()
    parts = _ACTION.fullmatch(action)
    tool, arguments = (parts[1], parts[2]) if parts else (action.strip() or "action", "")
    call = Call(tool, arguments, observed)
    if observed.startswith(_REFUSED):
        call.error_class = "invalid_action"
    return Turn(calls=[call])
