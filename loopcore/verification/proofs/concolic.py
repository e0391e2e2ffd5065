"""A concolic comparison: every path of the real `Run.decide` and of the naive model, run together.

Theory of operation: CrossHair runs Python with symbolic integers and takes, one after another, each
path that some values make. Both sides are the code that runs: a *scene* is a short trace in which a
few integers are free, a run decides it, and the naive model judges it. *Proved* means that the
engine says that it saw every path and that no path differed; a time-out, a path that was given up
or one that raised is *unknown*.

The naive side is called below its door, at the functions that judge one step, because the door
makes digests, and a hash has no symbolic value.

Source: spec verification, section 4.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from loopcore.errors import InputError
from loopcore.models import Policy, Step
from loopcore.testing import naive
from loopcore.testing.building import EXTENDED, Move, build_steps, number_of, roomy_policy
from loopcore.testing.naive_wire import INTEGER_MAX, Record, is_array
from loopcore.verification.proofs.results import Counterexample, TheoremResult
from loopcore.verification.proofs.solver import leave_interrupts_alone
from loopcore.verification.proofs.subject import Subject, comparable
from loopcore.verification.proofs.unknowns import EVIDENCE, POLICY_RANGES

if TYPE_CHECKING:
    import traceback

    from crosshair.statespace import StateSpace

# All scenes together; each has its share.
SECONDS_MAX = 60.0
_PATH_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A short trace with free integers.

    Fields:
        free: the integers, as `policy.field` or as a step's place and field, `0.field`.
    """

    name: str
    moves: tuple[Move, ...]
    free: tuple[str, ...]
    properties: tuple[str, ...]


_AGAIN = Move(action=1)
SCENES: tuple[Scene, ...] = (
    Scene(
        name="times",
        moves=(Move(), Move(kind="verification", action=1)),
        free=(
            "policy.started_at_unix_ms",
            "policy.deadline_unix_ms",
            "0.completed_at_unix_ms",
            "1.completed_at_unix_ms",
        ),
        properties=("E06", "E10", "E11"),
    ),
    Scene(
        name="cost",
        moves=(Move(), Move(kind="verification", action=1)),
        free=("policy.max_cost_microunits", "0.cost_microunits_delta", "1.cost_microunits_delta"),
        properties=("E06", "E11"),
    ),
    Scene(
        name="tokens",
        moves=(Move(kind="repair", deltas=(1, 0, 1)), Move(action=1)),
        free=(
            "policy.max_input_tokens",
            "policy.max_output_tokens",
            "0.input_tokens_delta",
            "1.output_tokens_delta",
        ),
        properties=("E06", "E11"),
    ),
    Scene(
        name="deltas",
        moves=(Move(kind="repair"),),
        free=(
            "0.model_calls_delta",
            "0.tool_calls_delta",
            "0.repairs_delta",
            "0.input_tokens_delta",
        ),
        properties=("E11",),
    ),
    Scene(
        name="calls",
        moves=(Move(kind="repair", deltas=(1, 0, 1)), Move(kind="tool_call", action=1)),
        free=(
            "policy.max_steps",
            "policy.max_model_calls",
            "policy.max_tool_calls",
            "policy.max_repairs",
        ),
        properties=("E02", "E06"),
    ),
    Scene(
        name="streaks",
        moves=(_AGAIN, _AGAIN, _AGAIN),
        free=(
            "policy.max_consecutive_no_progress",
            "policy.max_consecutive_repeated_actions",
            "policy.max_evidence_receipts",
        ),
        properties=("E02", "E06"),
    ),
    Scene(
        name="finish",
        moves=(Move(kind="finish", evidence=(1,), proof=1, state=1),),
        free=("policy.max_evidence_receipts", "policy.max_steps", "policy.deadline_unix_ms"),
        properties=("E02", "E07"),
    ),
    Scene(
        name="order",
        moves=(Move(), Move(action=1)),
        free=("0.sequence", "1.sequence", "1.completed_at_unix_ms"),
        properties=("E11",),
    ),
)


class _Maker(Protocol):
    def __call__(self, **fields: object) -> object: ...


@dataclass(slots=True)
class _Paths:
    """What the engine saw: how many paths, whether all, and what differed or raised."""

    count: int = 0
    exhausted: bool = False
    incomplete: int = 0
    difference: dict[str, int] | None = None
    raised: list[str] = field(default_factory=list[str])


def compare(subject: Subject) -> Iterator[Callable[[], TheoremResult]]:
    """Yield the comparisons of all scenes, each of which gives its verdict when it is called."""
    for scene in SCENES:
        yield partial(compare_scene, subject, scene, SECONDS_MAX / len(SCENES))


def compare_scene(subject: Subject, scene: Scene, seconds: float) -> TheoremResult:
    """Return whether an evaluator and the naive model take every path of a scene alike."""
    started = time.perf_counter()
    paths = _explore(subject, scene, seconds)
    found = None if paths.difference is None else _confirmed(subject, scene, paths.difference)
    reason: str | None = None
    if paths.difference is not None and found is None:
        reason = f"a path differs, but not the evaluator on its values: {paths.difference}"
    elif paths.difference is None and paths.raised:
        reason = f"a path raised {paths.raised[0]}"
    elif paths.difference is None and paths.incomplete:
        reason = f"{paths.incomplete} paths were given up"
    elif paths.difference is None and not paths.exhausted:
        reason = f"not every path was seen in {seconds:.0f} s"
    return TheoremResult(
        id=f"paths:{scene.name}",
        properties=scene.properties,
        statement=f"The code of the evaluator and of the naive model give one verdict for every "
        f"value of {', '.join(scene.free)}.",
        kind="compared",
        bound=f"the extended release, one trace of {len(scene.moves)} steps, those integers in "
        "range, everything else fixed",
        count=paths.count,
        unit="paths",
        verdict="refuted" if found is not None else "unknown" if reason else "proved",
        reason=reason,
        finding="the two differ on a path" if found is not None else None,
        counterexample=found,
        seconds=round(time.perf_counter() - started, 3),
    )


def _explore(subject: Subject, scene: Scene, seconds: float) -> _Paths:
    from crosshair import core
    from crosshair.options import DEFAULT_OPTIONS
    from crosshair.statespace import RootNode

    leave_interrupts_alone()
    # This module tells the engine about the types of the standard library.
    importlib.import_module("crosshair.core_and_libs")
    # The evaluator's module is made before anything is traced.
    subject.names()
    names = [f"free_{place}" for place in range(len(scene.free))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(n, kind, annotation=int) for n in names])
    paths = _Paths()
    realize = cast("Callable[[object], Sequence[int]]", vars(core)["deep_realize"])

    def run(arguments: inspect.BoundArguments) -> bool:
        values = dict(zip(scene.free, arguments.args, strict=True))
        return _agree(subject, scene, values)

    def on_path(  # noqa: PLR0917 the engine calls it with six
        space: StateSpace,
        before: inspect.BoundArguments,
        after: inspect.BoundArguments,
        agreed: bool | None,
        error: BaseException | None,
        stack: traceback.StackSummary | None,
    ) -> bool:
        del after, stack
        paths.count += 1
        if error is not None:
            paths.raised.append(repr(error))
            return True
        space.detach_path()
        if not agreed:
            found = realize(before.args)
            paths.difference = dict(zip(scene.free, (int(v) for v in found), strict=True))
        return not agreed

    stats: Counter[str] = Counter()
    options = replace(
        DEFAULT_OPTIONS,
        per_condition_timeout=seconds,
        per_path_timeout=_PATH_SECONDS_MAX,
        stats=stats,
    )
    core.explore_paths(run, signature, options, RootNode(), on_path)
    paths.exhausted = stats["exhaustion"] > 0
    paths.incomplete = stats["num_paths"] - paths.count
    return paths


def _agree(subject: Subject, scene: Scene, values: Mapping[str, int]) -> bool:
    """Return whether both sides say the same of a scene; values out of range are agreed upon."""
    for name, value in values.items():
        low, high = POLICY_RANGES.get(name.removeprefix("policy."), (0, INTEGER_MAX))
        if not low <= value <= high:
            return True
    policy, steps = _trace(scene, values)
    # A deadline that is not after the start is refused before anything is decided.
    if number_of(policy, "deadline_unix_ms") <= number_of(policy, "started_at_unix_ms"):
        return True
    return _ours(subject, policy, steps) == _theirs(policy, steps)


def _trace(scene: Scene, values: Mapping[str, int]) -> tuple[Record, list[Record]]:
    """Return the policy and the steps of a scene with its free integers set."""
    policy = roomy_policy(EXTENDED)
    steps = build_steps(policy, list(scene.moves))
    for name, value in values.items():
        where, _, what = name.partition(".")
        (policy if where == "policy" else steps[int(where)])[what] = value
    return policy, steps


def _ours(subject: Subject, policy: Record, steps: Sequence[Record]) -> tuple[object, ...]:
    """Return what the evaluator says: a code and index, or all that fired, and the totals."""
    run = subject.run(_made(Policy, policy))
    try:
        run.decide([_made(Step, step) for step in steps])
    except InputError as error:
        return error.code, error.step
    calls, amounts = (vars_of(run, name) for name in ("_calls", "_amounts"))
    return (*calls, *amounts, run.terminal, *run.violations)


def vars_of(run: object, name: str) -> tuple[object, ...]:
    """Return a private tuple of a run."""
    return cast("tuple[object, ...]", getattr(run, name))


def _made(kind: type[Policy] | type[Step], record: Record) -> object:
    """Return a value of the evaluator's without decoding it, which keeps symbolic integers."""
    make = cast("_Maker", kind)
    evidence = record.get(EVIDENCE)
    return make(**{**record, EVIDENCE: tuple(evidence)} if is_array(evidence) else record)


def _theirs(policy: Record, steps: list[Record]) -> tuple[object, ...]:
    """Return what the naive model says, in the same words."""
    inside = cast("dict[str, object]", vars(naive))
    is_progress = cast("Callable[[list[Record], int], bool]", inside["_is_progress"])
    code_of = cast("Callable[[Record, list[Record], int], str | None]", inside["_step_code"])
    fired_of = cast(
        "Callable[[Record, list[Record], int, list[bool]], list[str]]", inside["_fired"]
    )
    usage_of = cast("Callable[[list[Record]], dict[str, int]]", inside["_usage"])
    progress = [is_progress(steps, index) for index in range(len(steps))]
    fired: list[str] = []
    for index in range(len(steps)):
        code = "post_terminal_step" if fired else code_of(policy, steps, index)
        if code is not None:
            return code, index
        fired = fired_of(policy, steps, index, progress)
    usage = list(usage_of(steps).values())[:-1]
    violations = [rule for rule in fired if rule != "completed"]
    return (*usage, fired[0] if fired else None, *violations)


def _confirmed(subject: Subject, scene: Scene, values: dict[str, int]) -> Counterexample | None:
    """Return the trace of a path's values where both evaluators, run on it, really differ."""
    policy, steps = _trace(scene, values)
    expected, got = naive.evaluate(policy, steps), subject.answer(policy, steps)
    if comparable(expected) == comparable(got):
        return None
    return Counterexample(policy=policy, steps=steps, expected=expected, got=got)
