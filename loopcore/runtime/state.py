"""The state of a run: what its journal says, and nothing that its journal does not say.

Theory of operation: `State` is made by `loopcore.runtime.folding.fold` alone, one event after the
other. Clocks, handles and what a worker does at this moment are not part of it. A run that
continues another one is the fold of both journals in order, so every counter, streak and identity
of the earlier run is kept without being copied.

An action goes through: reserved, dispatched, then `unresolved` (an indeterminate outcome) or
`resolved` (a definitive one), or `dropped` (never called). Settled and committed are apart from
that, because an indeterminate outcome is settled at once and committed only when it is known.

Source: spec runtime, sections 1 to 5.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from loopcore.canonical import digest
from loopcore.control.decisions import Controller
from loopcore.models import Outcome, Policy, Terminal
from loopcore.runtime.amounts import NOTHING, Amounts
from loopcore.runtime.envelope import Envelope, ToolRule
from loopcore.runtime.payloads import (
    ActionDispatched,
    ActionRefused,
    ActionReserved,
    CancelRequested,
    EffectReconciled,
    OutcomeObserved,
    Parent,
    RunReceipt,
    RunResumed,
)
from loopcore.runtime.progress import Progress
from loopcore.store.journal import EMPTY_HEAD, Head

Status = Literal["reserved", "dispatched", "unresolved", "resolved", "dropped"]


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one invocation.

    Fields:
        epoch: of its last event, so that inherited ones are told from own ones.
        outcome: the first definitive one, or `indeterminate` when the run ended on that.
        charged: what it was settled at, None while it is not settled.
        late: what was reported of it after the terminal, above what it was settled at.
        step: its number among the committed steps, None while it is none.
        no_effect: it was verified that the effect did not and will not happen.
        answers: how often a reconciler could not tell; asked_at_unix_ms: when the last time.
    """

    reserved: ActionReserved
    key: str
    status: Status
    epoch: int
    dispatched: ActionDispatched | None = None
    observed: OutcomeObserved | None = None
    reconciled: EffectReconciled | None = None
    accepted: tuple[str, ...] = ()
    outcome: Outcome | None = None
    charged: Amounts | None = None
    late: Amounts = NOTHING
    step: int | None = None
    no_effect: bool = False
    finish_refused: bool = False
    answers: int = 0
    asked_at_unix_ms: int = 0
    child_run_id: str | None = None

    @property
    def name(self) -> str:
        """The action's id."""
        return self.reserved.action

    @property
    def is_open(self) -> bool:
        """Whether it still holds something: a reservation, or an effect that nobody knows."""
        return self.status in ("reserved", "dispatched", "unresolved")

    @property
    def awaits_outcome(self) -> bool:
        """Whether it was dispatched and nothing at all was recorded of it."""
        return self.status == "dispatched"


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts of one invocation identity."""

    payload_sha256: str
    attempts: int
    last_action: str
    retries: int = 0
    # A late outcome contradicted a "verified no effect": nobody may try again.
    incident: bool = False


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The terminal that the run is bound to reach, not yet committed.

    Fields:
        on_step: the step that decided it, or None where it was decided between steps.
        since_unix_ms: when, which is where the shutdown budget begins.
    """

    terminal: Terminal | str
    violations: tuple[str, ...]
    on_step: int | None
    reason: str
    since_unix_ms: int


class State:
    """A run, folded. Only `fold` may change it; whoever decides on it reads."""

    __slots__ = (
        "actions", "cancel", "children", "complete", "controller", "created", "depth", "ending",
        "envelope", "epoch", "evidence_seen", "findings", "finish_refusals", "grant_sha256",
        "head", "infrastructure_failures", "invocations", "last_at_unix_ms", "late",
        "lease_released", "lineage", "occurrences", "open", "outstanding", "owner", "parent",
        "policy", "policy_sha256", "progress", "proof", "receipt", "refusals", "refused",
        "results", "resumed", "resumed_sha256", "resumption_due", "rules_by_tool", "run_id",
        "started", "uncommitted", "verifier_faults",
    )  # fmt: skip

    def __init__(self) -> None:
        self.run_id = ""
        self.lineage = ""
        self.head: Head = EMPTY_HEAD
        self.created = False
        self.policy: Policy = NO_POLICY
        self.policy_sha256: str | None = None
        self.envelope = Envelope()
        self.grant_sha256: str | None = None
        self.rules_by_tool: dict[str, ToolRule] = {}
        self.depth = 0
        self.parent: Parent | None = None
        self.last_at_unix_ms = 0
        self.epoch = 0
        self.owner: str | None = None
        self.lease_released = False
        # Whether any action was ever reserved, and whether a new owner has yet to look at it.
        self.started = False
        self.resumption_due = False
        self.progress = Progress(NO_POLICY)
        self.actions: dict[str, Action] = {}
        # Open or uncommitted actions, in the order of their reservation.
        self.open: dict[str, Action] = {}
        self.invocations: dict[str, Invocation] = {}
        # The last occurrence of each logical action.
        self.occurrences: dict[str, int] = {}
        self.children: dict[str, str] = {}
        self.outstanding = NOTHING
        self.uncommitted = NOTHING
        # Usage that was reported after the terminal, above what was settled.
        self.late = NOTHING
        self.complete = True
        self.evidence_seen: set[str] = set()
        self.proof: str | None = None
        self.refusals = 0
        self.finish_refusals = 0
        self.verifier_faults = 0
        self.infrastructure_failures = 0
        self.results: list[Action | ActionRefused] = []
        self.refused: ActionRefused | None = None
        self.findings: list[str] = []
        self.controller: Controller | None = None
        self.cancel: CancelRequested | None = None
        self.ending: Ending | None = None
        self.receipt: RunReceipt | None = None
        self.resumed: RunResumed | None = None
        self.resumed_sha256: str | None = None

    @property
    def state_sha256(self) -> str:
        """The digest of the canonical state after the last committed step."""
        return self.progress.state_sha256

    @property
    def charged(self) -> Amounts:
        """Everything that the run was charged so far."""
        return self.progress.total.plus(self.uncommitted).plus(self.late)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is reserved, unresolved, uncommitted or open."""
        return not self.open

    def rule(self, tool: str) -> ToolRule | None:
        """Return what the envelope declares of a tool."""
        return self.rules_by_tool.get(tool)

    def copy(self) -> State:
        """Return a state that folds on its own; values inside are shared, since they are frozen.

        A plugged-in controller has no copy, so a state that has one refuses.
        """
        if self.controller is not None:
            raise ValueError("a state with a controller is folded anew, not copied")
        twin = State()
        for name in State.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.progress = self.progress.copy()
        twin.actions = dict(self.actions)
        twin.open = dict(self.open)
        twin.invocations = dict(self.invocations)
        twin.occurrences = dict(self.occurrences)
        twin.children = dict(self.children)
        twin.evidence_seen = set(self.evidence_seen)
        twin.results = list(self.results)
        twin.findings = list(self.findings)
        return twin

    def fingerprint(self) -> str:
        """Return a digest of everything that decisions rest on: equal states, equal digests.

        Clock stamps and the head are part of it, as deadlines and appends rest on them.
        """
        return digest(
            [
                self.run_id, self.head, self.policy_sha256, self.last_at_unix_ms, self.owner,
                self.lease_released, self.resumption_due, self.progress.total, self.progress.idle,
                self.progress.same, self.progress.last_action, list(self.progress.pairs),
                sorted(self.progress.seen), self.state_sha256, list(self.actions.values()),
                self.invocations, self.outstanding, self.uncommitted, self.late, self.complete,
                self.refusals, self.finish_refusals, self.verifier_faults,
                self.infrastructure_failures, self.cancel, self.ending, self.receipt,
                self.resumed,
            ]
        )  # fmt: skip


_ZERO = "0" * 64

# What stands in a state before its run is created.
NO_POLICY = Policy(
    schema="loopcore/policy/1",
    policy_id="none",
    evaluator_release="loopcore-reference/1",
    run_envelope_sha256=_ZERO,
    behavior_spec_sha256=_ZERO,
    initial_state_sha256=_ZERO,
    started_at_unix_ms=0,
    deadline_unix_ms=1,
    max_steps=1,
    max_model_calls=0,
    max_tool_calls=0,
    max_repairs=0,
    max_cost_microunits=0,
    max_consecutive_no_progress=1,
    max_consecutive_repeated_actions=2,
    max_input_tokens=None,
    max_output_tokens=None,
    max_evidence_receipts=None,
    max_cycle_length=None,
    cycle_repeats=None,
)
