"""Tools, planner, verifier and reconciler as a user writes them, and what becomes of their answers.

Theory of operation: a tool is a function of one `ToolCall`, with a declaration beside it. What it
returns is its output; a `ToolResult` adds state, evidence and usage. `ToolFailed` is a failure that
the tool is sure of. Any other exception says that the call did not end well and nothing about its
effect: for a tool without effect that is a failure, for every other one the outcome is
indeterminate, and nobody calls it again before the effect's own system was asked.

Choices: outputs and arguments are JSON text in ASCII, so any string has one, half a surrogate pair
included. An output that is no JSON is its `repr`.

Source: spec runtime, section 2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from loopcore.control.limits import Effect
from loopcore.errors import LoopcoreError
from loopcore.models import ActionKind, Outcome
from loopcore.runtime.amounts import UNMEASURED, Amounts, Measured
from loopcore.runtime.envelope import ToolRule
from loopcore.runtime.messages import Act, Ask, Finding, Finish, Observation, Proposal, Reconcile
from loopcore.runtime.payloads import EvidenceReceipt, Fence
from loopcore.runtime.tables import INFRASTRUCTURE
from loopcore.runtime.views import View

ERROR_CLASS_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call on its way across the boundary.

    Fields:
        idempotency_key: the same for this attempt only; hand it to the effect's system.
        remaining_ms: how long the runner will wait. lifetime_until_unix_ms: after this the effect's
            system must refuse the call, where the tool declares a lifetime.
    """

    tool: str
    arguments: dict[str, object]
    idempotency_key: str
    identity: str
    run_id: str
    lineage: str
    action: str
    at_unix_ms: int
    remaining_ms: int
    deadline_unix_ms: int
    lifetime_until_unix_ms: int | None
    state_sha256: str
    release: str = "1"

    def evidence(self, subject: str, *, state_sha256: str | None = None) -> EvidenceReceipt:
        """Return a receipt by which this tool attests something about this run."""
        return EvidenceReceipt(
            issuer=self.tool,
            release=self.release,
            scope=self.lineage,
            subject=subject,
            issued_at_unix_ms=self.at_unix_ms,
            state_sha256=state_sha256,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call achieved; state_sha256: of the canonical state now, None where it is as before.

    Fields:
        usage: measured; what is None was not measured, which is charged as reserved.
    """

    output: object = None
    state_sha256: str | None = None
    evidence: tuple[EvidenceReceipt, ...] = ()
    usage: Measured = UNMEASURED
    findings: tuple[str, ...] = ()


class ToolStopped(LoopcoreError):
    """The call ended before it was done; nothing is said of its effect.

    Arguments:
        findings: what somebody has to look at. usage: what was measured until then.
    """

    def __init__(
        self, message: str, *, findings: tuple[str, ...] = (), usage: Measured = UNMEASURED
    ) -> None:
        super().__init__(message)
        self.findings = findings
        self.usage = usage


class ToolFailed(LoopcoreError):
    """The call failed, and nothing of it will happen.

    Arguments:
        infrastructure: a rate limit, 5xx or the like: it says nothing of the action itself.
    """

    def __init__(
        self,
        message: str,
        *,
        error_class: str = "tool_error",
        infrastructure: bool = False,
        usage: Measured = UNMEASURED,
    ) -> None:
        super().__init__(message)
        named = plain_text(error_class)[:ERROR_CLASS_CHARACTERS_MAX] or "tool_error"
        self.error_class = INFRASTRUCTURE if infrastructure else named
        self.usage = usage


ToolFunction: TypeAlias = Callable[[ToolCall], "Awaitable[object] | object"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with its declaration; made by `tool`."""

    rule: ToolRule
    function: ToolFunction = field(repr=False)


def tool(  # noqa: PLR0913 a declaration has this many fields
    name: str,
    function: ToolFunction,
    *,
    effect: Effect = "unsafe",
    kind: ActionKind = "tool_call",
    cost_microunits_max: int = 0,
    input_tokens_max: int = 0,
    output_tokens_max: int = 0,
    parameters: Sequence[str] | None = None,
    timeout_ms: int | None = None,
    lifetime_ms: int | None = None,
    release: str = "1",
) -> Tool:
    """Return a tool; fields as in `loopcore.runtime.envelope.ToolRule`."""
    rule = ToolRule(
        name=name,
        kind=kind,
        effect=effect,
        cost_microunits_max=cost_microunits_max,
        input_tokens_max=input_tokens_max,
        output_tokens_max=output_tokens_max,
        parameters=None if parameters is None else tuple(parameters),
        timeout_ms=timeout_ms,
        lifetime_ms=lifetime_ms,
        release=release,
    )
    return Tool(rule, function)


Planned: TypeAlias = "Proposal | Sequence[Proposal] | None"
Planner: TypeAlias = Callable[[View], "Awaitable[Planned] | Planned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The verifier vouches for the work; subject: what it found, for the completion receipt."""

    subject: str
    evidence: tuple[EvidenceReceipt, ...] = ()
    usage: Measured = UNMEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The work is not done; the planner reads the reason."""

    reason: str
    usage: Measured = UNMEASURED


Verdict: TypeAlias = Accepted | Refused
Verifier: TypeAlias = Callable[[View, str], "Awaitable[Verdict] | Verdict"]
Reconciler: TypeAlias = Callable[[Reconcile], "Awaitable[Finding] | Finding"]


def act(
    tool_name: str,
    arguments: object = None,
    *,
    key: str | None = None,
    occurrence: int | None = None,
    carve: Amounts | None = None,
) -> Act:
    """Return the proposal to call a tool with JSON arguments.

    Arguments:
        key: the planner's own name of the logical action, the same whenever it means the same one.
        occurrence: which time it is wanted; needed to repeat an unsafe call that succeeded.
    """
    return Act(
        tool=tool_name,
        arguments=json_text({} if arguments is None else arguments),
        key=key,
        occurrence=occurrence,
        carve=carve,
    )


def finish(claim: object = None) -> Finish:
    """Return the proposal to end the run as done."""
    return Finish(claim=json_text({} if claim is None else claim))


def ask(question: str) -> Ask:
    """Return the request for input that nobody inside the run has."""
    return Ask(question=question)


def json_text(value: object) -> str:
    """Return a value as canonical JSON text in ASCII, or its `repr` as a JSON string."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(repr(value))


def plain_text(text: str) -> str:
    """Return a text with half surrogate pairs, which have no UTF-8, as their escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def verified_success(*, state_sha256: str | None = None, reason: str = "", output: object = None,
                     usage: Measured = UNMEASURED) -> Finding:  # fmt: skip
    """Return the answer that the effect happened."""
    return Finding(
        finding="verified_success",
        state_sha256=state_sha256,
        reason=reason,
        output=json_text(output),
        measured=usage,
    )


def verified_no_effect(key: str, *, lifetime_passed: bool = False, reason: str = "") -> Finding:
    """Return the answer that the effect did not happen and cannot any more.

    Arguments:
        key: the dispatch's key, which the effect's system was told to refuse for good.
        lifetime_passed: instead, the effect's system refuses it since the lifetime is over.
    """
    fence = Fence(kind="lifetime_passed" if lifetime_passed else "key_refused", key=key)
    return Finding(finding="verified_no_effect", fence=fence, reason=reason)


def still_indeterminate(reason: str = "") -> Finding:
    """Return the answer that nobody can tell; an absence alone is this, and nothing more."""
    return Finding(finding="still_indeterminate", reason=reason)


def observed(answer: object, characters_max: int) -> Observation:
    """Return what a call that returned was observed to do."""
    result = answer if isinstance(answer, ToolResult) else ToolResult(output=answer)
    text = result.output if isinstance(result.output, str) else json_text(result.output)
    return with_output(
        Observation(
            outcome="succeeded",
            measured=result.usage,
            state_sha256=result.state_sha256,
            evidence=result.evidence,
            findings=result.findings,
        ),
        text,
        characters_max,
    )


def with_output(seen: Observation, text: str, characters_max: int) -> Observation:
    """Return an observation with an output, cut at a size and named by the digest of the whole."""
    plain = plain_text(text)
    return msgspec.structs.replace(
        seen,
        output=plain[:characters_max],
        output_sha256=hashlib.sha256(plain.encode("utf-8")).hexdigest(),
        output_characters=len(plain),
    )


def unknown(effect: Effect) -> Outcome:
    """Return the outcome of a call of which only this is known: it did not end well."""
    return "failed" if effect == "none" else "indeterminate"


def raised(error: BaseException, effect: Effect, characters_max: int) -> Observation:
    """Return what a call that raised was observed to do."""
    if isinstance(error, ToolFailed):
        seen = Observation(outcome="failed", measured=error.usage, error_class=error.error_class)
        return with_output(seen, str(error), characters_max)
    if isinstance(error, ToolStopped):
        stopped = Observation(
            outcome=unknown(effect),
            measured=error.usage,
            error_class="stopped",
            findings=error.findings,
        )
        return with_output(stopped, str(error), characters_max)
    name = type(error).__name__[:ERROR_CLASS_CHARACTERS_MAX]
    seen = Observation(outcome=unknown(effect), error_class=name)
    return with_output(seen, str(error), characters_max)
