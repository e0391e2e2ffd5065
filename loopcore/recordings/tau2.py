"""tau2: `{timestamp, info, tasks, simulations}`; each simulation holds one talk.

Theory of operation: a message of role assistant is a turn and its `tool_calls` with requestor
assistant are the actions. Calls with requestor user are the simulated user's and are left out, as
is every message of role user. A reward of at least 1 is success; a run that ended at max_steps or
too_many_errors ended at its own cap.

Choices: tokens with a cost of exactly 0 are the mark of a model without a price, so that cost is
unknown, with a warning. The opening greeting has neither tokens nor usage: it called no model.

Source: spec control, section 5; incidents 8.3 and 13.4.
"""

from __future__ import annotations

from loopcore.recordings.accounting import CallBook, amount, optional_count
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

FORMAT = "tau2"
CAPS = frozenset({"max_steps", "too_many_errors"})
WRITE_PREFIXES = (
    "book_",
    "update_",
    "cancel_",
    "modify_",
    "exchange_",
    "return_",
    "refuel_",
    "enable_",
    "disable_",
    "resume_",
    "suspend_",
    "send_",
)
SIGNAL = (
    "a successful call of a tool that writes is progress 1, any other call 0; a turn of text alone"
    " is not measurable"
)


def matches(root: Node) -> bool:
    """Return whether the document has this format's outline."""
    return "simulations" in (root.fields() or {})


def read(root: Node) -> Imported:
    """Return the runs of one file; simulations without an agent call are listed."""
    imported = Imported()
    info = root.field("info")
    model = info.field("agent_info").field("llm").text()
    domain = info.field("environment_info").field("domain_name").text()
    seen: set[str] = set()
    for simulation in root.field("simulations").array():
        run_id = simulation.field("id").text()
        if run_id in seen:
            simulation.field("id").reject(f"the simulation {run_id!r} stands there twice")
        seen.add(run_id)
        run = _run(simulation, model, domain)
        if isinstance(run, Run):
            imported.runs.append(run)
        else:
            imported.listed.append(run)
    return imported


def _run(simulation: Node, model: str, domain: str) -> Run | Listed:
    run_id = simulation.field("id").text()
    task = f"{domain}:{simulation.field('task_id').label()}"
    trial = simulation.optional("trial")
    ended = text_of(simulation.optional("termination_reason")) or "unknown end"
    info = simulation.optional("reward_info")
    reward = None if info is None else info.optional("reward")
    success = None if reward is None else reward.number() >= 1
    turns, warnings = _turns(simulation.field("messages"))
    if not has_call(turns):
        return Listed(
            source=simulation.file, item=run_id, reason=NO_CALL, set=FORMAT, success=success
        )
    words = "no reward" if reward is None else f"reward {reward.number()}"
    return Run(
        set=FORMAT,
        format=FORMAT,
        run_id=run_id,
        task=task,
        trial=0 if trial is None else trial.count(),
        model=model,
        success=success,
        outcome=f"{ended}, {words}",
        censored=success is False and ended in CAPS,
        signal=SIGNAL,
        observations=observations(turns, progress_known=True),
        source=simulation.file,
        cost_known=costs_known(turns),
        warnings=warnings,
    )


def _turns(messages: Node) -> tuple[list[Turn], tuple[str, ...]]:
    """Return the agent's turns and what had to be decided about them."""
    turns: list[Turn] = []
    book = CallBook(messages.file)
    calls: dict[str, Call] = {}
    unpriced = 0
    fresh_messages, copies = _without_copies(messages)
    for message in fresh_messages:
        role = message.field("role").text()
        if role == "assistant":
            turns.append(_assistant(message, book, calls))
            unpriced += turns[-1].cost is None and turns[-1].input_tokens is not None
        elif role == "user":
            _open_calls(message, "user", book)
        elif role == "tool":
            call_id = message.field("id")
            content, error = text_of(message.optional("content")), message.optional("error")
            failed = error is not None and error.boolean()
            fresh = book.answer(call_id.text(), (content, failed), call_id)
            if fresh and call_id.text() in calls:
                _answer(calls[call_id.text()], content, failed)
        elif role != "system":
            message.field("role").reject(f"unknown role {role!r}")
    warnings: list[str] = []
    if unpriced:
        warnings.append(f"{unpriced} model calls have tokens and no price: their cost is unknown")
    if copies:
        warnings.append(f"{copies} messages were exact copies and count once")
    return turns, tuple(warnings)


def _without_copies(messages: Node) -> tuple[list[Node], int]:
    """Return the messages, each once, and how many exact copies were left out.

    A resumed talk writes its earlier messages again; `turn_idx` tells a copy from a repetition.
    """
    seen: dict[int, Node] = {}
    fresh: list[Node] = []
    copies = 0
    for message in messages.array():
        index = message.optional("turn_idx")
        known = None if index is None else seen.setdefault(index.count(), message)
        if known is None or known is message:
            fresh.append(message)
        elif known.value == message.value:
            copies += 1
        else:
            message.reject(
                f"two different messages have the turn_idx {known.field('turn_idx').value}"
            )
    return fresh, copies


def _open_calls(message: Node, requestor: str, book: CallBook) -> list[tuple[str, Call]]:
    """Enter the calls of a message that this party requested and return the new ones."""
    fresh: list[tuple[str, Call]] = []
    listed = message.optional("tool_calls")
    for node in [] if listed is None else listed.array():
        call_id = node.field("id").text()
        call = Call(tool=node.field("name").text(), arguments=node.field("arguments").mapping())
        party = text_of(node.optional("requestor")) or requestor
        # The place in the talk is part of the content: two turns never share an id.
        turn = message.optional("turn_idx")
        content = (call.tool, call.arguments, party, None if turn is None else turn.count())
        new = book.open(call_id, content, node.field("id"))
        if new and party == "assistant":
            fresh.append((call_id, call))
    return fresh


def _assistant(message: Node, book: CallBook, calls: dict[str, Call]) -> Turn:
    fresh = _open_calls(message, "assistant", book)
    calls.update(fresh)
    turn = Turn(calls=[call for _, call in fresh])
    usage, cost = message.optional("usage"), message.optional("cost")
    turn.cost = None if cost is None else amount(cost)
    if usage is None:
        turn.model_calls = 0 if turn.cost is not None and not turn.cost else None
    else:
        turn.input_tokens = optional_count(usage.optional("prompt_tokens"))
        turn.output_tokens = optional_count(usage.optional("completion_tokens"))
        if turn.cost is not None and not turn.cost and (turn.input_tokens or turn.output_tokens):
            turn.cost = None
    return turn


def _answer(call: Call, content: str, failed: bool) -> None:
    call.result = content
    if failed:
        call.error_class = error_kind(content)
    else:
        call.progress = call.tool.startswith(WRITE_PREFIXES)
