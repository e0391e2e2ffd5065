"""mini-swe-agent 1.1 and 1: one trajectory a file; the outcome stands in a report elsewhere.

Theory of operation: a message of role assistant is a turn. In 1.1 its `extra.actions` are the
actions and a tool message carries each result. In 1 the one fenced bash block of its text is the
action and the next user message the result; any other number of blocks is a format error, which
is a turn without a call. A result is the text that the agent saw. `outcomes()` reads the reports;
`load` joins them to the runs.

Choices: the recording knows no state, so progress is unknown, unless the caller asks for the shell
heuristic: a command that changes files, not dispatched before in this run and ending with status
0, is progress. It is only a guess, can be gamed, and the run's `signal` says so.

Source: spec control, section 5; incidents 8.1, 8.3 and 13.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from loopcore.recordings.accounting import (
    CallBook,
    amount,
    microunits,
    optional_count,
    price_usage,
)
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
from loopcore.recordings.nodes import Node, text_of

CHAT, FENCED = "mini-swe-agent-1.1", "mini-swe-agent-1"
SETS = {CHAT: "mini-swe-agent 1.1", FENCED: "mini-swe-agent 1"}
SIGNAL = "none: the recording knows no state"
SHELL_SIGNAL = (
    "heuristic: a command that changes files, new in this run and ending with status 0, is"
    " progress 1; any other call 0"
)
CAPS = frozenset({"LimitsExceeded"})
COST_TOLERANCE_MICROUNITS = 1
_SUBMIT = re.compile(
    r"\s*echo\s+[\"']?(COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT)"
)
_BLOCK = re.compile(r"```bash\s*\n(.*?)\n```", re.DOTALL)
_RETURN_CODE = re.compile(r"<returncode>(-?\d+)</returncode>")
_TIMED_OUT = "The last command <command>"
_MUTATES = re.compile(
    r"\bsed\s+(-\S+\s+)*-i|(?<![0-9&])>>?\s*[\w./~$\"'-]"
    r"|(?:^|[;&|(]\s*)(?:tee|patch|git\s+apply|mv|cp|rm|mkdir|touch)\s",
    re.MULTILINE,
)


def matches(root: Node) -> bool:
    """Return whether the document has this format's outline."""
    fields = root.fields() or {}
    return "trajectory_format" in fields or "messages" in fields


def read(root: Node, *, shell_progress: bool = False) -> Imported:
    """Return the one run of a trajectory file; its success is unknown until joined to a report."""
    version = root.field("trajectory_format").text()
    if version not in SETS:
        known = ", ".join(SETS)
        root.field("trajectory_format").reject(
            f"unknown trajectory format {version!r}; known are {known}"
        )
    info = root.field("info")
    instance = root.field("instance_id").text()
    status = text_of(info.optional("exit_status")) or "unknown end"
    messages = root.field("messages").array()
    turns, warnings = _chat(messages, root) if version == CHAT else _fenced(messages)
    if not has_call(turns):
        listed = Listed(source=root.file, item=instance, reason=NO_CALL, set=SETS[version])
        return Imported(listed=[listed])
    if shell_progress:
        _guess_progress(turns)
    run = Run(
        set=SETS[version],
        format=version,
        run_id=instance,
        task=instance,
        trial=0,
        model=_model(info),
        success=None,
        outcome=status,
        censored=status in CAPS,
        signal=SHELL_SIGNAL if shell_progress else SIGNAL,
        observations=observations(turns, progress_known=shell_progress),
        source=root.file,
        cost_known=costs_known(turns),
        warnings=(*warnings, *_cost_check(info, turns)),
    )
    return Imported(runs=[run])


def _model(info: Node) -> str | None:
    node: Node | None = info
    for name in ("config", "model", "model_name"):
        node = None if node is None else node.optional(name)
    return None if node is None else node.text()


def _cost_check(info: Node, turns: list[Turn]) -> tuple[str, ...]:
    """Return a warning when the calls' costs do not add up to the recorded total."""
    stats = info.optional("model_stats")
    stated = None if stats is None else stats.optional("instance_cost")
    costs = [turn.cost for turn in turns if turn.cost is not None]
    if stated is None or len(costs) < len(turns):
        return ()
    total = sum(costs, start=Decimal(0))
    difference = abs(microunits(amount(stated)) - microunits(total))
    if difference <= COST_TOLERANCE_MICROUNITS:
        return ()
    return (f"the calls cost {difference} microunits more or less than the stated total",)


def _spend(turn: Turn, message: Node, *, nested: bool) -> tuple[str, ...]:
    """Enter the usage of an assistant message into its turn."""
    extra = message.optional("extra")
    response = None if extra is None else extra.optional("response")
    usage = None if response is None else response.optional("usage")
    cost = None if extra is None else extra.optional("cost")
    warnings: tuple[str, ...] = ()
    if usage is not None:
        if nested:
            inner = usage.optional("cost")
            cost = cost if inner is None else inner
        turn.input_tokens = optional_count(usage.optional("prompt_tokens"))
        turn.output_tokens = optional_count(usage.optional("completion_tokens"))
        details = usage.optional("prompt_tokens_details")
        cached = optional_count(None if details is None else details.optional("cached_tokens"))
        warnings = price_usage(turn.input_tokens, cached, None, None, None).warnings
    if cost is not None:
        turn.cost = amount(cost)
        if not turn.cost and (turn.input_tokens or turn.output_tokens):
            turn.cost = None
    return warnings


def _status(call: Call, returncode: int | None, *, timed_out: bool = False) -> None:
    if timed_out:
        call.error_class = "timeout"
    elif returncode:
        call.error_class = f"exit_{returncode}"


def _chat(messages: list[Node], root: Node) -> tuple[list[Turn], tuple[str, ...]]:
    """Return the turns of a 1.1 trajectory."""
    turns: list[Turn] = []
    book = CallBook(root.file)
    calls: dict[str, Call] = {}
    warnings: list[str] = []
    for message in messages:
        role = message.field("role").text()
        if role == "assistant":
            extra = message.field("extra")
            listed = extra.field("actions").array()
            turn = Turn(error_class=None if listed else "format_error")
            # The moment is part of the content: two turns never share an id.
            moment = extra.optional("timestamp")
            for node in listed:
                command, call_id = node.field("command").text(), node.field("tool_call_id")
                content = (command, None if moment is None else moment.number())
                if book.open(call_id.text(), content, call_id):
                    call = Call("bash", command, claims_done=bool(_SUBMIT.match(command)))
                    calls[call_id.text()] = call
                    turn.calls.append(call)
            if listed and not turn.calls:
                warnings.append("a message was an exact copy and counts once")
                continue
            warnings.extend(_spend(turn, message, nested=False))
            turns.append(turn)
        elif role == "tool":
            call_id, content_text = message.field("tool_call_id"), message.field("content").text()
            if book.answer(call_id.text(), content_text, call_id):
                call = calls[call_id.text()]
                call.result = content_text
                extra = message.field("extra")
                code = extra.optional("returncode")
                fault = text_of(extra.optional("exception_info"))
                _status(call, None if code is None else int(code.number()), timed_out=bool(fault))
        elif role not in ("system", "user", "exit"):
            message.field("role").reject(f"unknown role {role!r}")
    return turns, tuple(warnings)


def _fenced(messages: list[Node]) -> tuple[list[Turn], tuple[str, ...]]:
    """Return the turns of a trajectory of version 1."""
    turns: list[Turn] = []
    warnings: list[str] = []
    waiting: Call | None = None
    for message in messages:
        role, content = message.field("role").text(), message.field("content").text()
        if role == "assistant":
            blocks = _BLOCK.findall(content)
            turn, waiting = Turn(), None
            if len(blocks) == 1:
                command = str(blocks[0]).strip()
                waiting = Call("bash", command, claims_done=bool(_SUBMIT.match(command)))
                turn.calls.append(waiting)
            else:
                turn.error_class = "format_error"
            warnings.extend(_spend(turn, message, nested=True))
            turns.append(turn)
        elif role == "user":
            if waiting is not None:
                waiting.result = content
                code = _RETURN_CODE.match(content)
                _status(
                    waiting,
                    int(code[1]) if code else None,
                    timed_out=content.startswith(_TIMED_OUT),
                )
            waiting = None
        elif role not in ("system", "exit"):
            message.field("role").reject(f"unknown role {role!r}")
    return turns, tuple(warnings)


def _guess_progress(turns: list[Turn]) -> None:
    """Mark the first successful dispatch of each file-changing command."""
    seen: set[str] = set()
    for turn in turns:
        for call in turn.calls:
            command = str(call.arguments)
            new = command not in seen
            seen.add(command)
            ended_well = call.result is not None and call.error_class is None
            call.progress = new and ended_well and bool(_MUTATES.search(command))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A report's word on one instance."""

    instance: str
    resolved: bool
    words: str
    source: str


_AGGREGATE = {
    "resolved_ids": (True, "resolved"),
    "unresolved_ids": (False, "unresolved"),
    "empty_patch_ids": (False, "empty patch"),
    "error_ids": (False, "evaluation error"),
}


def is_report(root: Node) -> bool:
    """Return whether the document is an aggregate or an instance report."""
    fields = root.fields() or {}
    if "resolved_ids" in fields or "resolved" in fields:
        return True
    inner = [node.fields() or {} for _, node in root.entries()] if len(fields) == 1 else []
    return any("resolved" in one for one in inner)


def outcomes(root: Node, folder: str) -> list[Outcome]:
    """Return what a report says; `folder` names the instance of a flat instance report.

    Errors: InputError `malformed` for an instance with two different outcomes.
    """
    report = root.mapping()
    if "resolved_ids" not in report:
        if "resolved" in report:
            node, name = root.field("resolved"), folder
        else:
            name, inner = next(root.entries())
            node = inner.field("resolved")
        resolved = node.boolean()
        words = "resolved" if resolved else "unresolved"
        return [Outcome(instance=name, resolved=resolved, words=words, source=root.file)]
    found: dict[str, Outcome] = {}
    for field, (resolved, words) in _AGGREGATE.items():
        ids = root.optional(field)
        for node in [] if ids is None else ids.array():
            name = node.text()
            known = found.get(name)
            if known is not None and known.resolved != resolved:
                node.reject(f"{name!r} is both resolved and not")
            found[name] = Outcome(instance=name, resolved=resolved, words=words, source=root.file)
    return list(found.values())
