"""What goes into the protocol and what comes out of it: proposals, inputs, commands, local memory.

Theory of operation: `decide(state, local, input)` absorbs the input into `Local`, what this worker
alone knows and would lose in a crash, and then says what to do next. A decision has at most one
`Append`, which comes first. Where it was made, the driver folds its events and goes on with
`Decision.local`; where it was refused or not answered, the driver drops the other commands too,
reads and folds what is new, and goes on with `Decision.otherwise`, which still holds whatever was
not journalled. Nothing is ever sent again.

Source: spec runtime, sections 1 and 2.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loopcore.models import Outcome
from loopcore.runtime.amounts import UNMEASURED, Amounts, Measured
from loopcore.runtime.drafting import Stamp
from loopcore.runtime.payloads import EvidenceReceipt, Fence, FindingKind
from loopcore.store.journal import Event

# What a planner proposes.


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Call a tool.

    Fields:
        arguments: JSON text of an object, canonical as `loopcore.runtime.tools.arguments_text`.
        key: the planner's own name of the logical action; None names it by tool and arguments.
        occurrence: 1 for the first time that the same logical action is wanted, then 2, 3, …;
            None lets the protocol count for tools that are not unsafe.
        carve: of a child run: what it may use at most.
    """

    tool: str
    arguments: str = "{}"
    key: str | None = None
    occurrence: int | None = None
    carve: Amounts | None = None


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """Claim that the work is done; the verifier decides."""

    claim: str = "{}"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for input that only somebody outside the run can give."""

    question: str = ""


Proposal: TypeAlias = Act | Finish | Ask


# What a call or a question brought.


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was observed of one call; `indeterminate` says that nobody knows.

    Fields:
        output: text, cut already; output_sha256 and output_characters: of the whole.
        state_sha256: the canonical state afterwards, None where the call leaves it as it was.
        completion: of a finish: the receipt that proves it.
        abandoned: the call may still be running.
    """

    outcome: Outcome
    measured: Measured = UNMEASURED
    output: str = ""
    output_sha256: str | None = None
    output_characters: int = 0
    state_sha256: str | None = None
    evidence: tuple[EvidenceReceipt, ...] = ()
    completion: EvidenceReceipt | None = None
    error_class: str | None = None
    abandoned: bool = False
    findings: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconciler found out about one dispatch."""

    finding: FindingKind
    reconciler: str = "reconciler"
    reason: str = ""
    fence: Fence | None = None
    measured: Measured = UNMEASURED
    output: str = ""
    state_sha256: str | None = None
    evidence: tuple[EvidenceReceipt, ...] = ()


# Inputs.


class Pump(msgspec.Struct, frozen=True, kw_only=True):
    """Time has passed or events were folded: decide what is next.

    Fields:
        fresh: the driver read the journal to its end after its last append.
    """

    now: Stamp
    fresh: bool = False


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's answer; no proposals: it has nothing more to propose."""

    proposals: tuple[Proposal, ...]
    now: Stamp


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """A call came back."""

    action: str
    observation: Observation
    now: Stamp


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """A reconciler answered."""

    action: str
    finding: Finding
    now: Stamp


class ScopeAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """The wider budgets were asked to reserve the next actions, in order.

    Fields:
        granted: the actions for which every scope has a reservation now.
        refused_by, bound: the scope that had no room for the next one, and its terminal.
    """

    granted: tuple[str, ...]
    now: Stamp
    refused_by: str | None = None
    bound: str | None = None


Input: TypeAlias = Pump | Proposed | Returned | Reconciled | ScopeAnswered


# Commands.


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Append these events by compare-and-swap."""

    run_id: str
    expected_head: str
    epoch: int
    events: tuple[Event, ...]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Read and fold the journal to its end, then pump with `fresh`."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """Let the call cross the boundary, now; bring back `Returned`.

    Fields:
        attempt_of: the invocation identity. deadline_unix_ms: when to stop waiting at the latest.
    """

    action: str
    tool: str
    arguments: str
    idempotency_key: str
    identity: str
    deadline_unix_ms: int
    lifetime_until_unix_ms: int | None = None


class StartChild(msgspec.Struct, frozen=True, kw_only=True):
    """Run a child, or take up one that runs already; bring back `Returned` when it has ended.

    Fields:
        cancel: end it instead. Where its journal is empty it is created and cancelled at once.
    """

    action: str
    child_run_id: str
    tool: str
    arguments: str
    carve: Amounts
    deadline_unix_ms: int
    cancel: bool = False


class Abort(msgspec.Struct, frozen=True, kw_only=True):
    """Ask a call of this worker to stop; it still brings back `Returned`, if it can."""

    action: str


class Reconcile(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the effect's own system what became of a dispatch; bring back `Reconciled`."""

    action: str
    tool: str
    arguments: str
    idempotency_key: str
    identity: str
    deadline_unix_ms: int
    lifetime_until_unix_ms: int | None
    last_observation: str
    answers: int
    child_run_id: str | None = None


class ReserveScope(msgspec.Struct, frozen=True, kw_only=True):
    """Reserve in each wider budget, in order, until one has no room; bring back `ScopeAnswered`."""

    scopes: tuple[str, ...]
    actions: tuple[tuple[str, Amounts], ...]


class SettleScopes(msgspec.Struct, frozen=True, kw_only=True):
    """Settle in each wider budget what the run has settled, and release what it never took."""

    scopes: tuple[str, ...]


class Propose(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the planner; bring back `Proposed`."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to do until something comes in, or until this time."""

    until_unix_ms: int | None = None


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """Another owner has the run: stop every call and change nothing."""

    epoch: int


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The run is over and given back."""


Command: TypeAlias = (
    Append
    | Read
    | Call
    | StartChild
    | Abort
    | Reconcile
    | ReserveScope
    | SettleScopes
    | Propose
    | Wait
    | Fenced
    | Done
)


class Local(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker knows that the journal does not.

    Fields:
        mode: carry the run on, or only reconcile what its terminal left open.
        late: outcomes to record once the lease of a run with a terminal is held.
        reconciles: whether there is anyone to ask about an effect.
        uncalled: own dispatches, in the journal and not yet called. calling: called, not back.
        proposals: what the planner wants and nobody decided yet; None before it is asked.
        waiting: the proposals cannot be admitted before something is settled.
        stop: a terminal between steps that this worker found due, with its reason.
        answered: effects of which a reconciler could not tell, asked once after the terminal.
        scopes_due: something was settled that the wider budgets do not know.
        scope: the answer of the wider budgets to the proposals at hand.
    """

    worker: str
    mode: Literal["run", "reconcile"] = "run"
    reconciles: bool = False
    late: tuple[Returned, ...] = ()
    epoch: int | None = None
    uncalled: frozenset[str] = frozenset()
    calling: frozenset[str] = frozenset()
    aborting: frozenset[str] = frozenset()
    reconciling: frozenset[str] = frozenset()
    returned: tuple[Returned, ...] = ()
    findings: tuple[Reconciled, ...] = ()
    proposing: bool = False
    proposals: tuple[Proposal, ...] | None = None
    asked_scope: bool = False
    scopes_due: bool = False
    answered: frozenset[str] = frozenset()
    scope: ScopeAnswered | None = None
    stop: tuple[str, str] | None = None
    stop_since_unix_ms: int | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Commands in order, and the worker's memory if they are carried out.

    Fields:
        local: where the append was made, or there is none.
        otherwise: where the append was refused or not answered; the other commands are dropped.

    The driver pumps again at once, unless the last command is Wait, Done or Fenced.
    """

    commands: tuple[Command, ...]
    local: Local
    otherwise: Local
