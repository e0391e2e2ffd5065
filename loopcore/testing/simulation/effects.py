"""The fake effect system: calls cross a boundary, arrive or not, have an effect or not.

Theory of operation: crossings of the boundary and effects are counted apart, since a lost request
is a crossing without an effect and a repeated one an effect with two arrivals. Keys are enforced,
refused and bounded in time only where the drawn case of the tool says so. What the system answers
is always true; only its caller may not hear it, or hear it late.

R01 is judged here, where it cannot be argued with: at most one effect of an invocation over all its
attempts, and at most one crossing of a key.

Source: spec runtime, sections 3 and 9; spec verification, section 2 (R01).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from loopcore.runtime.amounts import UNMEASURED, Measured
from loopcore.runtime.messages import Call, Finding, Observation, Reconcile
from loopcore.runtime.payloads import EvidenceReceipt, Fence
from loopcore.runtime.tables import INFRASTRUCTURE
from loopcore.testing.simulation.draws import Draws
from loopcore.testing.simulation.options import ToolCase
from loopcore.testing.simulation.tape import Broken

STATES = tuple(f"{number:064x}" for number in range(1, 5))
_SOON_MS = (0, 0, 1, 5, 30)
_LATE_MS = (50, 200, 1_000)
_TIMED_OUT = Observation(outcome="indeterminate", error_class="timeout")


class Answer(NamedTuple):
    """An observation that reaches the caller after so many milliseconds."""

    after_ms: int
    observation: Observation


class Request(NamedTuple):
    """A call on its way through the network."""

    case: ToolCase
    call: Call


class Effects:
    """Every system that tools reach, and what was done to it.

    Arguments:
        now_ms: its own clock, which nobody sets. strikes: whether a fault happens now.
    """

    def __init__(
        self, draws: Draws, now_ms: Callable[[], int], strikes: Callable[[str], bool]
    ) -> None:
        self._draws = draws
        self._now_ms = now_ms
        self._strikes = strikes
        self.crossings: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.done: set[str] = set()
        self.refused: set[str] = set()
        self.lifetimes: dict[str, int] = {}
        self.under_way: list[Request] = []
        self._identities: dict[str, str] = {}
        self._answers: dict[str, Observation] = {}
        # Keys under which the system itself said that it did nothing.
        self.denied: set[str] = set()

    def cross(self, case: ToolCase, call: Call, scope: str) -> list[Answer]:
        """Let a call cross the boundary; return what reaches its caller, and when."""
        draws, key = self._draws, call.idempotency_key
        self.crossings[key] += 1
        self._identities[key] = call.identity
        if case.rule.effect != "none" and not case.enforces_keys and self.crossings[key] > 1:
            raise Broken("R01", f"{call.tool} crossed the boundary twice under the key {key[:12]}")
        if call.lifetime_until_unix_ms is not None:
            self.lifetimes[key] = call.lifetime_until_unix_ms
        if self._strikes("request_lost"):
            return self._unheard()
        request = Request(case, call)
        if self._strikes("request_late"):
            self.under_way.append(request)
            return self._unheard()
        seen = self._arrive(request, scope)
        if case.enforces_keys and self._strikes("request_twice"):
            self._arrive(request, scope)
        if self._strikes("no_answer"):
            return self._unheard()
        if self._strikes("response_late"):
            late = Answer(draws.pick(_LATE_MS), seen)
            # The caller may have stopped waiting, with nothing known, before the answer comes.
            return [late] if draws.chance(0.5) else [Answer(draws.pick(_SOON_MS), _TIMED_OUT), late]
        answers = [Answer(draws.pick(_SOON_MS), seen)]
        if self._strikes("response_twice"):
            answers.append(Answer(draws.pick((*_SOON_MS, *_LATE_MS)), seen))
        return answers

    def _unheard(self) -> list[Answer]:
        if self._draws.chance(0.5):
            return []
        return [Answer(self._draws.pick(_SOON_MS), _TIMED_OUT)]

    def arrive_late(self, place: int) -> None:
        """Let a request arrive that was under way all the time; nobody waits for its answer."""
        self._arrive(self.under_way.pop(place), "late")

    def is_over(self, key: str) -> bool:
        """Return whether nothing can arrive under a key any more."""
        until = self.lifetimes.get(key)
        return key in self.refused or (until is not None and self._now_ms() >= until)

    def _arrive(self, request: Request, scope: str) -> Observation:
        """Return what the system answers to an arrival, after doing it or not."""
        case, call = request
        key, draws = call.idempotency_key, self._draws
        if self.is_over(key):
            self.denied.add(key)
            return Observation(outcome="failed", error_class="key refused")
        if case.enforces_keys and key in self._answers:
            return self._answers[key]
        fails = draws.chance(0.2)
        error = INFRASTRUCTURE if draws.chance(0.5) else None
        if fails:
            self.denied.add(key)
            answer = Observation(outcome="failed", error_class=error, measured=self._usage(case))
        else:
            self._happen(case, call)
            answer = self._success(case, call, scope)
        self._answers[key] = answer
        return answer

    def _happen(self, case: ToolCase, call: Call) -> None:
        if case.rule.effect == "none":
            return
        self.done.add(call.idempotency_key)
        self.happened[call.identity] += 1
        if self.happened[call.identity] > 1:
            raise Broken("R01", f"{call.tool} had its effect twice for one invocation")

    def _success(self, case: ToolCase, call: Call, scope: str) -> Observation:
        draws = self._draws
        subject = call.action if draws.chance(0.8) else "same"
        evidence = EvidenceReceipt(
            issuer=case.rule.name if draws.chance(0.9) else "stranger",
            release="1",
            scope=scope,
            subject=subject,
            issued_at_unix_ms=self._now_ms(),
        )
        return Observation(
            outcome="succeeded",
            measured=self._usage(case),
            evidence=(evidence,) if draws.chance(0.7) else (),
            state_sha256=draws.pick(STATES) if draws.chance(0.7) else None,
        )

    def _usage(self, case: ToolCase) -> Measured:
        """Return what a call reports of its usage: nothing, part, all, or more than its worst."""
        draws, rule = self._draws, case.rule
        if draws.chance(0.2):
            return UNMEASURED
        cost = draws.below(rule.cost_microunits_max + 1) + 3 * draws.chance(0.1)
        # Some tools report tokens that they have no budget for; those belong nowhere.
        tokens = rule.kind == "model_generation" or draws.chance(0.1)
        return Measured(
            cost_microunits=cost,
            input_tokens=None if draws.chance(0.2) else draws.below(10) * tokens,
            output_tokens=draws.below(5) * tokens,
        )

    def ask(self, case: ToolCase, asked: Reconcile) -> Finding:
        """Return what a reconciler finds out: the truth with its proof, or that it cannot tell."""
        draws, key = self._draws, asked.idempotency_key
        if self._strikes("careless"):
            return self._careless(asked)
        if self._strikes("unsure"):
            return Finding(finding="still_indeterminate", reason="no answer")
        fence: Fence | None = None
        if case.fences:
            self.refused.add(key)
            fence = Fence(kind="key_refused", key=key)
        elif asked.lifetime_until_unix_ms is not None and self._now_ms() >= (
            asked.lifetime_until_unix_ms
        ):
            # A dispatch that never crossed has its lifetime from the journal, which is the same.
            self.lifetimes[key] = asked.lifetime_until_unix_ms
            fence = Fence(kind="lifetime_passed", key=key)
        if key in self.done and (case.probes or case.fences):
            return Finding(
                finding="verified_success",
                measured=self._usage(case),
                state_sha256=draws.pick(STATES) if draws.chance(0.5) else None,
            )
        if fence is None or (key in self.done and not case.fences):
            return Finding(finding="still_indeterminate", reason="absence proves nothing")
        return Finding(finding="verified_no_effect", fence=fence)

    def _careless(self, asked: Reconcile) -> Finding:
        """Return an answer that rests on nothing; the protocol must not believe it."""
        fence = self._draws.pick((None, Fence(kind="key_refused", key="another")))
        if fence is None and asked.lifetime_until_unix_ms is None and self._draws.chance(0.5):
            fence = Fence(kind="lifetime_passed", key=asked.idempotency_key)
        return Finding(finding="verified_no_effect", fence=fence, reason="not found")


def finish_answer(draws: Draws, scope: str, now_ms: int) -> Observation:
    """Return what the verifier says of a finish: proven, not proven, or that it failed itself."""
    if draws.chance(0.2):
        return Observation(outcome="failed", error_class="verifier")
    if draws.chance(0.3):
        return Observation(outcome="failed")
    receipt = EvidenceReceipt(
        issuer="finish",
        release="1",
        scope=scope if draws.chance(0.9) else "another",
        subject="done",
        issued_at_unix_ms=now_ms,
    )
    kept = None if draws.chance(0.1) else receipt
    return Observation(outcome="succeeded", completion=kept)
