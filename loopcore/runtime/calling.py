"""Calls that cross the boundary, and what was observed of each.

Theory of operation: whatever happens to a call is an observation, and nothing is raised. A timeout
and a cancellation say that the client stopped waiting: for a tool without effect that is a failure,
for every other one nobody knows. The driver waits for none of this; it runs each call as a task.

Source: spec runtime, sections 2 and 5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import msgspec

from loopcore.canonical import canonical
from loopcore.runtime.envelope import FINISH, FINISH_RULE, arguments_object
from loopcore.runtime.invoking import invoke
from loopcore.runtime.messages import Call, Finding, Observation, Reconcile
from loopcore.runtime.payloads import EffectReconciled, EvidenceReceipt, OutcomeObserved
from loopcore.runtime.settlement import as_payload, finding_payload
from loopcore.runtime.state import State
from loopcore.runtime.tools import (
    Reconciler,
    Refused,
    Tool,
    ToolCall,
    Verdict,
    Verifier,
    observed,
    raised,
    still_indeterminate,
    unknown,
    with_output,
)
from loopcore.runtime.views import View

VERIFIER_FAULT = "verifier_error"
NO_VERIFIER = "no verifier was given to the runner"

# How long a reconciler may take over one question.
QUESTION_MS_MAX = 30_000


def _check(payload: OutcomeObserved | EffectReconciled) -> None:
    """Raise where an answer could not stand in a journal; better here than at its append."""
    canonical(payload)
    msgspec.convert(msgspec.to_builtins(payload), type(payload))


class Boundary:
    """What lies outside the run: tools, the verifier and the reconciler.

    Arguments:
        tools: by name.
        threads: functions that are not `async` run in threads, so that they may block.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        verifier: Verifier | None,
        reconciler: Reconciler | None,
        *,
        threads: bool = True,
    ) -> None:
        self._tools = tools
        self._verifier = verifier
        self._reconciler = reconciler
        self._threads = threads

    async def call(self, command: Call, state: State, at_unix_ms: int) -> Observation:
        """Return what was observed of a call; an exception and a cancellation are observations."""
        rule = state.rule(command.tool) or FINISH_RULE
        limit = state.envelope.rules.output_characters_max
        remaining = command.deadline_unix_ms - at_unix_ms
        try:
            async with asyncio.timeout(remaining / 1_000):
                if command.tool == FINISH:
                    return await self._verify(command, state, at_unix_ms)
                call = ToolCall(
                    tool=command.tool,
                    arguments=arguments_object(command.arguments) or {},
                    idempotency_key=command.idempotency_key,
                    identity=command.identity,
                    run_id=state.run_id,
                    lineage=state.lineage,
                    action=command.action,
                    at_unix_ms=at_unix_ms,
                    remaining_ms=remaining,
                    deadline_unix_ms=command.deadline_unix_ms,
                    lifetime_until_unix_ms=command.lifetime_until_unix_ms,
                    state_sha256=state.state_sha256,
                    release=rule.release,
                )
                function = self._tools[command.tool].function
                answer = await invoke(function, lambda: function(call), threads=self._threads)
                seen = observed(answer, limit)
                _check(as_payload(command.action, seen))
                return seen
        except TimeoutError:
            return Observation(outcome=unknown(rule.effect), error_class="timeout")
        except asyncio.CancelledError:
            return Observation(outcome=unknown(rule.effect), error_class="cancelled")
        except Exception as error:  # noqa: BLE001 whatever a tool raises is what was observed of it
            return raised(error, rule.effect, limit)

    async def _verify(self, command: Call, state: State, at_unix_ms: int) -> Observation:
        """Return what the verifier said of a finish; a verifier that fails is not a refusal."""
        limit = state.envelope.rules.output_characters_max
        verifier, claim = self._verifier, command.arguments
        if verifier is None:
            return Observation(outcome="failed", output=NO_VERIFIER)
        view = View(state, len(state.results))
        try:
            answer = await invoke(verifier, lambda: verifier(view, claim), threads=self._threads)
            seen = _judged(cast("Verdict", answer), command, state, at_unix_ms)
            _check(as_payload(command.action, seen))
        except Exception as error:  # noqa: BLE001 a broken verifier says nothing about the work
            seen = Observation(outcome="failed", error_class=VERIFIER_FAULT)
            return with_output(seen, f"{type(error).__name__}: {error}", limit)
        return seen

    async def ask(self, question: Reconcile) -> Finding:
        """Return what the reconciler found out; one that fails or takes too long could not tell."""
        reconciler = self._reconciler
        if reconciler is None:
            return still_indeterminate("there is nobody to ask")
        try:
            async with asyncio.timeout(QUESTION_MS_MAX / 1_000):
                answer = await invoke(
                    reconciler, lambda: reconciler(question), threads=self._threads
                )
                if not isinstance(answer, Finding):
                    return still_indeterminate(f"the reconciler answered {type(answer).__name__}")
                _check(finding_payload(question.action, answer))
                return answer
        except TimeoutError:
            return still_indeterminate("the reconciler did not answer in time")
        except Exception as error:  # noqa: BLE001 a broken reconciler proves nothing either way
            return still_indeterminate(f"{type(error).__name__}: {error}"[:1_024])


def _judged(verdict: Verdict, command: Call, state: State, at_unix_ms: int) -> Observation:
    """Return what a verdict is to the run; raises TypeError where it is none."""
    limit = state.envelope.rules.output_characters_max
    if isinstance(verdict, Refused):
        seen = Observation(outcome="failed", measured=verdict.usage)
        return with_output(seen, verdict.reason, limit)
    rule = state.rule(FINISH) or FINISH_RULE
    completion = EvidenceReceipt(
        issuer=rule.name,
        release=rule.release,
        scope=state.lineage,
        subject=verdict.subject,
        issued_at_unix_ms=at_unix_ms,
        state_sha256=state.state_sha256,
    )
    seen = Observation(
        outcome="succeeded",
        measured=verdict.usage,
        evidence=verdict.evidence,
        completion=completion,
    )
    return with_output(seen, command.arguments, limit)
