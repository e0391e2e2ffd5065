"""tau-bench: a list of `{task_id, trial, reward, info, traj}`; each `traj` is an OpenAI chat.

Theory of operation: a message of role assistant is a turn, its `tool_calls` are the actions, and
the message of role tool that names the call's id carries the result. Messages of role user are
input. A reward of at least 1 is success. The format records neither tokens nor cost of the agent,
so both stay unknown.

Choices: the producer hands out a call's id again for a later call, so an id that has been answered
may open a new call; one that is still open may not. The format names no cap; the producer's own
default of 30 agent steps is taken, and a failed run that reached it without the closing word of
the simulated user or a transfer is censored.

Source: spec control, section 5; incident 13.4.
"""

from __future__ import annotations

from loopcore.recordings.accounting import CallBook
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
from loopcore.recordings.model import Listed, Run
from loopcore.recordings.nodes import Node, text_of

FORMAT = "tau-bench"
STEPS_MAX = 30
CLOSING_WORD = "###STOP###"
TRANSFER = "transfer_to_human_agents"
WRITE_PREFIXES = ("book_", "update_", "cancel_", "send_", "modify_", "exchange_", "return_")
SIGNAL = (
    "a successful call of a tool that writes is progress 1, any other call 0; a turn of text alone"
    " is not measurable"
)


def matches(root: Node) -> bool:
    """Return whether the document has this format's outline."""
    first = root.array()[:1] if root.elements() is not None else []
    return any("traj" in (entry.fields() or {}) for entry in first)


def read(root: Node) -> Imported:
    """Return the runs of one file; runs without an agent call are listed."""
    imported = Imported()
    for number, entry in enumerate(root.array()):
        task, trial = entry.field("task_id").label(), entry.field("trial").count()
        reward = entry.optional("reward")
        success = None if reward is None else reward.number() >= 1
        turns, reused, closed = _turns(entry.field("traj"))
        name = f"{task}/{trial}"
        if not has_call(turns):
            imported.listed.append(
                Listed(
                    source=root.file,
                    item=f"$[{number}] ({name})",
                    reason=NO_CALL,
                    set=FORMAT,
                    success=success,
                )
            )
            continue
        warnings: tuple[str, ...] = ()
        if reused:
            warnings = (f"{reused} call ids were handed out again after their result",)
        imported.runs.append(
            Run(
                set=FORMAT,
                format=FORMAT,
                run_id=name,
                task=task,
                trial=trial,
                model=None,
                success=success,
                outcome="no reward" if reward is None else f"reward {reward.number()}",
                censored=success is False and len(turns) >= STEPS_MAX and not closed,
                signal=SIGNAL,
                observations=observations(turns, progress_known=True),
                source=root.file,
                cost_known=costs_known(turns),
                warnings=warnings,
            )
        )
    return imported


def _turns(trajectory: Node) -> tuple[list[Turn], int, bool]:
    """Return the agent's turns, how many ids were reused, and whether the talk was closed."""
    turns: list[Turn] = []
    book = CallBook(trajectory.file, reusable=True)
    calls: dict[str, Call] = {}
    closed = False
    for message in trajectory.array():
        role = message.field("role").text()
        if role == "assistant":
            turns.append(_assistant(message, book, calls))
        elif role == "tool":
            call_id = message.field("tool_call_id")
            content = text_of(message.optional("content"))
            if book.answer(call_id.text(), content, call_id):
                _answer(calls[call_id.text()], content)
            closed = closed or calls[call_id.text()].tool == TRANSFER
        elif role == "user":
            closed = closed or CLOSING_WORD in text_of(message.optional("content"))
        elif role != "system":
            message.field("role").reject(f"unknown role {role!r}")
    return turns, book.reused, closed


def _assistant(message: Node, book: CallBook, calls: dict[str, Call]) -> Turn:
    turn = Turn()
    listed = message.optional("tool_calls")
    for node in [] if listed is None else listed.array():
        call_id = node.field("id").text()
        function = node.field("function")
        call = Call(
            tool=function.field("name").text(), arguments=function.field("arguments").text()
        )
        if book.open(call_id, (call.tool, call.arguments), node.field("id")):
            calls[call_id] = call
            turn.calls.append(call)
    return turn


def _answer(call: Call, content: str) -> None:
    call.result = content
    if content.startswith("Error"):
        call.error_class = error_kind(content)
    else:
        call.progress = call.tool.startswith(WRITE_PREFIXES)
