"""InterCode: an object by index of `{environment, dataset, task_id, turn_history, summary}`.

Theory of operation: every entry of `turn_history.actions` is one turn with one action. A maximal
reward of 1 is success. The reward a turn is an oracle's knowledge: it goes to the run's
`oracle_rewards`, for the evaluation, and never into an observation. A failed run that used all its
turns ended at the set's own cap and is censored.

Choices: an action of the ReAct runs, `execute[…]`, is the tool execute with what is inside, and
`submit` is the agent's word that it is done. An invalid action's error class comes from the text
that the agent saw. An observation that is not text is taken as its JSON.

Source: spec control, section 5.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from loopcore.recordings.building import (
    NO_CALL,
    Call,
    Imported,
    Turn,
    costs_known,
    error_kind,
    has_call,
    observations,
)
from loopcore.recordings.exact import exact_json
from loopcore.recordings.model import Listed, Run
from loopcore.recordings.nodes import Node

FORMAT = "InterCode"
SIGNAL = "none: the reward a turn is an oracle's and is kept from controllers"
_TOOLS = {"ic_bash": "bash", "ic_sql": "sql", "ic_python": "python", "ic_ctf": "ctf"}
_BRACKETED = re.compile(r"\s*([a-z_]+)\[(.*)\]\s*", re.DOTALL)


def matches(root: Node) -> bool:
    """Return whether the document has this format's outline."""
    if root.fields() is None:
        return False
    return any("turn_history" in (entry.fields() or {}) for _, entry in root.entries())


def read(root: Node) -> Imported:
    """Return the runs of one file; entries without a history or an action are listed."""
    imported = Imported()
    stem = PurePath(root.file).stem
    for key, entry in root.entries():
        if "turn_history" not in entry.mapping():
            imported.listed.append(
                Listed(source=root.file, item=entry.place(), reason="parameters, not a run")
            )
            continue
        run = _run(entry, f"{stem}:{key}")
        if isinstance(run, Run):
            imported.runs.append(run)
        else:
            imported.listed.append(run)
    return imported


def _run(entry: Node, run_id: str) -> Run | Listed:
    summary = entry.field("summary")
    best = summary.optional("max_reward")
    success = None if best is None else best.number() == 1
    turns_max = summary.field("turns_max").count()
    tool = entry.field("environment").text()
    turns, rewards = _turns(entry.field("turn_history"), _TOOLS.get(tool, tool))
    if not has_call(turns):
        return Listed(source=entry.file, item=run_id, reason=NO_CALL, set=FORMAT, success=success)
    return Run(
        set=FORMAT,
        format=FORMAT,
        run_id=run_id,
        task=f"{entry.field('dataset').text()}:{entry.field('task_id').label()}",
        trial=0,
        model=None,
        success=success,
        outcome="no reward" if best is None else f"max_reward {best.number()}",
        censored=success is False and len(turns) >= turns_max,
        signal=SIGNAL,
        observations=observations(turns, progress_known=False),
        source=entry.file,
        cost_known=costs_known(turns),
        oracle_rewards=rewards,
    )


def _turns(history: Node, tool: str) -> tuple[list[Turn], tuple[str, ...]]:
    """Return one turn an action, and the oracle's rewards as exact decimals in text."""
    actions = history.field("actions").array()
    columns = {name: history.field(name) for name in ("observations", "rewards", "valid_action")}
    for name, column in columns.items():
        if len(column.array()) != len(actions):
            column.reject(f"{name} and actions differ in length")
    thoughtful = "thoughts" in history.mapping()
    turns: list[Turn] = []
    for action, observed, valid in zip(
        actions, columns["observations"].array(), columns["valid_action"].array(), strict=True
    ):
        call = _call(action.text(), tool, bracketed=thoughtful)
        call.result = _result(observed)
        if not valid.boolean():
            call.error_class = error_kind(call.result or "")
        turns.append(Turn(calls=[call]))
    return turns, tuple(str(reward.number()) for reward in columns["rewards"].array())


def _call(action: str, tool: str, *, bracketed: bool) -> Call:
    parts = _BRACKETED.fullmatch(action) if bracketed else None
    if parts:
        return Call(tool=parts[1], arguments=parts[2])
    if bracketed and action.strip() == "submit":
        return Call(tool="submit", arguments="", claims_done=True)
    return Call(tool=tool, arguments=action)


def _result(observed: Node) -> str | None:
    if observed.value is None or isinstance(observed.value, str):
        return observed.value
    return exact_json(observed.value)
