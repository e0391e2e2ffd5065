"""Everything that can happen next to two workers on one run, each move with the node behind it.

Theory of operation: a worker decides and appends, calls or asks; an answer arrives; a request that
was delayed arrives; a worker crashes; the lease expires. Time stands still, and a state is named by
what decisions rest on, not by the journal that led to it.

Two places between which nothing can be seen from outside are one move: a decision and its append,
since the append is made exactly when the view that was decided on is still the present one; and a
question to the planner and its answer. Behind the terminal workers crash no more, since all that
they have left to do is to give the lease back.

Source: spec verification, section 4; spec runtime, sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Literal

from loopcore.canonical import canonical
from loopcore.runtime.drafting import Stamp, creation
from loopcore.runtime.envelope import Envelope, Grant, Rules, ToolRule, sealed
from loopcore.runtime.folding import fold, fold_all
from loopcore.runtime.messages import (
    Act,
    Append,
    Call,
    Command,
    Done,
    Fenced,
    Finding,
    Input,
    Local,
    Observation,
    Propose,
    Proposed,
    Pump,
    Read,
    Reconcile,
    Reconciled,
    Returned,
)
from loopcore.runtime.payloads import Fence, RunCreated
from loopcore.runtime.policies import run_policy
from loopcore.runtime.protocol import decide
from loopcore.runtime.state import State
from loopcore.store.journal import EMPTY_HEAD, InvalidEvent, chain
from loopcore.terminals import EXTENDED
from loopcore.testing.exploration.nodes import (
    NAMES,
    Letter,
    Mind,
    Node,
    Numbered,
    Request,
    Violation,
    arrived,
    check,
    with_mind,
)

CRASHES_MAX, EXPIRIES_MAX, LATE_MAX, RETRIES_MAX = 2, 1, 1, 1
_TOOL = "pay"
_NOW = Stamp(at_unix_ms=1_000)
_DONE = Observation(outcome="succeeded")
_REFUSED = Observation(outcome="failed", error_class="refused")
_UNKNOWN = Observation(outcome="indeterminate", error_class="timeout")


class Moves:
    """The moves of a search.

    Arguments:
        planted: a fault of the surroundings that has to be found: a reconciler that claims a fence
            without having told the effect's system to refuse the key.
    """

    def __init__(self, planted: Literal["no fence"] | None = None) -> None:
        self._planted = planted
        self._states = Numbered[State]()
        self._minds = Numbered[Local]()
        self._letters = Numbered[Letter]()

    def first(self) -> Node:
        """Return the node in which the run was created and nobody has moved."""
        rule = ToolRule(name=_TOOL)
        envelope = Envelope(
            tools=(rule,),
            grants=(Grant(tool=_TOOL),),
            rules=Rules(reconciliations_max=1, reconcile_after_ms=0, parallel_max=2),
        )
        policy = run_policy(
            "explored",
            started_at_unix_ms=_NOW.at_unix_ms,
            release=EXTENDED,
            max_consecutive_no_progress=30,
            max_consecutive_repeated_actions=30,
        )
        created = RunCreated(policy=sealed(policy, envelope), envelope=envelope, lineage="run")
        draft = creation(
            created, run_id="run", state_sha256=policy.initial_state_sha256, stamp=_NOW
        )
        present = self._named(fold_all(chain(EMPTY_HEAD, (draft,))))
        first, second = (self._born(present, place) for place in range(len(NAMES)))
        nothing: frozenset[str] = frozenset()
        return Node(
            present, (first, second), frozenset(), frozenset(), nothing, frozenset(), nothing,
            expired=True,
        )  # fmt: skip

    def is_over(self, node: Node) -> bool:
        """Return whether the run has its terminal."""
        return self._states[node.present].receipt is not None

    def _born(self, present: int, place: int) -> Mind:
        """Return a worker that has just begun and read the journal."""
        local = self._minds.number(Local(worker=NAMES[place], reconciles=True))
        return Mind(present, behind=False, local=local)

    def _named(self, state: State) -> int:
        """Return the number of a state: all that decisions rest on, not how it came about."""
        name = canonical(
            [
                state.epoch, state.owner, state.lease_released, state.resumption_due,
                state.progress.total, state.progress.idle, state.progress.same,
                state.progress.last_action, state.state_sha256, list(state.actions.values()),
                list(state.open), state.invocations, state.outstanding, state.uncommitted,
                state.late, state.refusals, state.ending, state.receipt, len(state.results),
            ]
        )  # fmt: skip
        return self._states.number(state, sha256(name).digest())

    def following(self, node: Node) -> Iterator[tuple[str, Node]]:
        """Yield everything that can happen next, with the node behind it."""
        for name, after in self._happening(node):
            yield name, self._plain(after)

    def _plain(self, node: Node) -> Node:
        """Return a node without differences between workers that nobody can ever see.

        A worker that never held the lease reads before anything that it appends can stand. One
        that was fenced can still make the call for which it has just looked, and nothing else that
        counts: its appends are refused, the answers to it change nothing, and a question that it
        still asks can only refuse a key, which prevents effects.
        """
        epoch, letters = self._states[node.present].epoch, node.letters
        minds: list[Mind] = []
        for place, mind in enumerate(node.minds):
            held = self._minds[mind.local].epoch
            fenced = held is not None and held != epoch and not mind.fresh
            if mind.gone or fenced:
                letters = self._not_to(letters, place)
                minds.append(self._born(0, place)._replace(gone=True))
            elif held is None:
                minds.append(mind._replace(view=node.present, behind=False))
            else:
                minds.append(mind)
        return node._replace(minds=(minds[0], minds[1]), letters=letters)

    def _not_to(self, letters: frozenset[int], place: int) -> frozenset[int]:
        return frozenset(each for each in letters if self._letters[each].to != place)

    def _happening(self, node: Node) -> Iterator[tuple[str, Node]]:
        over = self.is_over(node)
        for place, mind in enumerate(node.minds):
            name = NAMES[place]
            if not over and node.crashes < CRASHES_MAX:
                yield f"{name} crashes", self._crashed(node, place)
            if mind.gone:
                continue
            yield from self._decide(node, place, Pump(now=_NOW, fresh=mind.fresh))
            if mind.behind:
                read = mind._replace(view=node.present, behind=False)
                yield f"{name} reads", with_mind(node, place, read)
        for number in sorted(node.letters):
            letter = self._letters[number]
            rest = node._replace(letters=node.letters - {number})
            for place in range(len(NAMES)) if letter.to is None else (letter.to,):
                if self._hears(node.minds[place], letter):
                    yield from self._decide(rest, place, letter.answer)
        state = self._states[node.present]
        held = state.owner is not None and not state.lease_released and not node.expired
        if held and node.expiries < EXPIRIES_MAX:
            yield "the lease expires", node._replace(expired=True, expiries=node.expiries + 1)
        for request in sorted(node.under_way):
            rest = node._replace(under_way=node.under_way - {request})
            yield "a delayed request arrives", arrived(rest, request)

    def _crashed(self, node: Node, place: int) -> Node:
        """Return the node in which a worker begins anew; what was on its way to it is lost."""
        letters = self._not_to(node.letters, place)
        born = self._born(node.present, place)
        after = with_mind(node, place, born, crashes=node.crashes + 1)
        return after._replace(letters=letters)

    def _sent(self, node: Node, place: int | None, answer: Returned | Reconciled) -> Node:
        """Return the node in which an answer is on its way."""
        return node._replace(letters=node.letters | {self._letters.number(Letter(place, answer))})

    def _hears(self, mind: Mind, letter: Letter) -> bool:
        """Return whether a worker can take up an answer; a late one, if it knows the action."""
        if mind.gone or letter.to is not None:
            return not mind.gone
        return letter.answer.action in self._states[mind.view].actions

    def _decide(self, node: Node, place: int, received: Input) -> Iterator[tuple[str, Node]]:
        """Yield what follows from a worker's decision."""
        mind, name = node.minds[place], NAMES[place]
        view = self._states[mind.view]
        try:
            decision = decide(view, self._minds[mind.local], received)
        except InvalidEvent as error:
            raise Violation(f"the protocol drafts what nobody may append: {error}") from error
        mind = mind._replace(local=self._minds.number(decision.local), fresh=False)
        what = f"{name} {type(received).__name__}"
        commands = decision.commands
        if commands and isinstance(commands[0], Append):
            append, commands = commands[0], commands[1:]
            what = f"{what}: {' '.join(event.kind for event in append.events)}"
            if node.minds[place].behind or self._is_held_off(node, append):
                knows = self._minds.number(decision.otherwise)
                other = mind._replace(local=knows, view=node.present, behind=False)
                yield f"{what}, refused", with_mind(node, place, other)
                return
            node = self._appended(node, place, append)
            mind = mind._replace(view=node.present, behind=False)
        yield from self._carry_out(what, with_mind(node, place, mind), place, commands)

    def _is_held_off(self, node: Node, append: Append) -> bool:
        """Return whether an append takes a lease that somebody holds."""
        state = self._states[node.present]
        takes = append.events[0].kind == "lease_acquired"
        return takes and state.owner is not None and not state.lease_released and not node.expired

    def _appended(self, node: Node, place: int, append: Append) -> Node:
        """Return the node in which events stand in the journal."""
        before = self._states[node.present]
        check(before, append.events, NAMES[place], node)
        state = before.copy()
        try:
            for event in append.events:
                fold(state, event)
        except InvalidEvent as error:
            raise Violation(f"what was appended does not fold: {error}") from error
        present = self._named(state)
        minds = tuple(mind._replace(behind=True) for mind in node.minds)
        taken = append.events[0].kind == "lease_acquired"
        return node._replace(
            present=present,
            minds=(minds[0], minds[1]),
            expired=False if taken else node.expired,
        )

    def _carry_out(
        self, what: str, node: Node, place: int, commands: tuple[Command, ...]
    ) -> Iterator[tuple[str, Node]]:
        """Yield every way in which the commands of a decision can go."""
        if not commands:
            yield what, node
            return
        command, rest = commands[0], commands[1:]
        mind = node.minds[place]
        ways: list[tuple[str, Node]] = [(what, node)]
        match command:
            case Read():
                looked = mind._replace(view=node.present, behind=False, fresh=True)
                ways = [(f"{what}, looks", with_mind(node, place, looked))]
            case Propose():
                # Only the worker itself sees when its planner answers.
                ways = list(self._decide(node, place, self._proposal(mind, place)))
            case Call():
                ways = [
                    (f"{what}, calls {command.action}: {how}", after)
                    for how, after in self._crossings(node, place, command)
                ]
            case Reconcile():
                ways = [
                    (f"{what}, asks about {command.action}: {how}", after)
                    for how, after in self._answers(node, place, command)
                ]
            case Done() | Fenced():
                ways = [(what, with_mind(node, place, mind._replace(gone=True)))]
            case _:
                pass
        for told, after in ways:
            yield from self._carry_out(told, after, place, rest)

    def _proposal(self, mind: Mind, place: int) -> Proposed:
        """Return what the planner wants: its one action until it is done; one retry in all."""
        view, text = self._states[mind.view], _text(NAMES[place])
        called = [action for action in view.actions.values() if action.status != "dropped"]
        own = [action for action in called if action.reserved.arguments == text]
        done = any(action.outcome == "succeeded" or action.is_open for action in own)
        retries = len(called) - len({action.reserved.identity for action in called})
        wanted = not done and (not own or retries < RETRIES_MAX)
        acts = (Act(tool=_TOOL, arguments=text),) if wanted else ()
        return Proposed(proposals=acts, now=_NOW)

    def _crossings(self, node: Node, place: int, call: Call) -> Iterator[tuple[str, Node]]:
        """Yield every fate of a call that crosses the boundary now."""
        key = call.idempotency_key
        if key in node.crossed:
            raise Violation(f"R01: {call.action} crosses the boundary a second time")
        if self._states[node.minds[place].view].actions[call.action].status != "dispatched":
            raise Violation(f"R05: {call.action} is called, and its caller knows that it is over")
        node = node._replace(crossed=node.crossed | {key})
        request = Request(key, call.identity)

        def heard(after: Node, seen: Observation) -> Node:
            return self._sent(
                after, place, Returned(action=call.action, observation=seen, now=_NOW)
            )

        if key in node.refused:
            yield "refused for good", heard(node, _REFUSED)
            return
        there = arrived(node, request)
        yield "done", heard(there, _DONE)
        yield "done, unheard", heard(there, _UNKNOWN)
        yield "done, and nothing comes back", there
        yield "refused", heard(node, _REFUSED)
        yield "lost", heard(node, _UNKNOWN)
        if node.late < LATE_MAX:
            late = node._replace(late=node.late + 1)
            delayed = late._replace(under_way=late.under_way | {request})
            yield "delayed", heard(delayed, _UNKNOWN)
            answer = Returned(action=call.action, observation=_DONE, now=_NOW)
            done = heard(arrived(late, request), _UNKNOWN)
            yield "done, heard late", self._sent(done, None, answer)

    def _answers(self, node: Node, place: int, asked: Reconcile) -> Iterator[tuple[str, Node]]:
        """Yield what a reconciler may answer; it fences the key first, unless a fault stands."""
        key, state = asked.idempotency_key, self._states[node.minds[place].view]
        if self._minds[node.minds[place].local].epoch != state.epoch:
            raise Violation(f"R07: {asked.action} is asked about without the lease")

        def told(after: Node, finding: Finding) -> Node:
            return self._sent(
                after, place, Reconciled(action=asked.action, finding=finding, now=_NOW)
            )

        yield "cannot tell", told(node, Finding(finding="still_indeterminate"))
        yield "no effect, no fence", told(node, Finding(finding="verified_no_effect"))
        fenced = node if self._planted else node._replace(refused=node.refused | {key})
        if any(request.key == key for request in node.done):
            yield "done", told(fenced, Finding(finding="verified_success"))
        else:
            fence = Fence(kind="key_refused", key=key)
            yield "no effect", told(fenced, Finding(finding="verified_no_effect", fence=fence))


def _text(name: str) -> str:
    return f'{{"for": "{name}"}}'
