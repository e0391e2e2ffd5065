"""Progress is a new best of a well-founded measure, made of what only real work can change.

Theory of operation: a `Reading` says how much remains, as a tuple compared in lexicographic order
with every component bounded below by 0, and which integrity constraints are violated. A
`ProgressMeter` turns the readings of one run into the `progress` of its observations: positive for
a new best alone, so a measure that goes down and up again gains nothing. A chain that strictly
descends in this order is finite, so no run can make progress for ever; where the later components
have maxima, `improvements_max` says how often it can at most.

Each application has one pure function that makes its reading. None takes what an agent can change
without working: pages seen, files touched, words written. What remains is always counted from what
the task requires and never from what is left over, and a task that was made easier is a violation.

Choices: the magnitude plays no part in any rule, so progress is 1, 0 or -1. The first sound reading
is where a run begins and gives 0; whoever knows the state before the first turn gives it first.
Worse means worse than the sound reading before, so getting back lost ground is 0. A reading that
violates a constraint gives 0, is no best, and is not what a later one is compared with. A source
supports a claim only when it was read, and two sources of one origin are one.

Source: spec control, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

import msgspec

from loopcore.errors import UsageError

# So many independent sources support a claim.
SOURCES_MIN = 2


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How much remains of a task, and what makes the reading worthless.

    Fields:
        remaining: in lexicographic order, smaller is better; every component at least 0.
        integrity: names of violated constraints; a reading with one is no progress.

    Errors: UsageError when there is no component, or one is negative.
    """

    remaining: tuple[int, ...]
    integrity: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.remaining or min(self.remaining) < 0:
            raise UsageError(f"remaining: expected integers of at least 0, got {self.remaining}")


class ProgressMeter:
    """Tells the progress of one run from its readings; remembers two of them."""

    def __init__(self) -> None:
        self._best: tuple[int, ...] | None = None
        self._last: tuple[int, ...] = ()

    def update(self, reading: Reading | None) -> int | None:
        """Return 1 for a new best of this run, -1 for worse than before, else 0.

        Arguments:
            reading: of the state after a turn, or None when it cannot be measured: then None.

        Errors: UsageError when it has other components than the readings before.
        """
        if reading is None:
            return None
        if reading.integrity:
            return 0
        remaining = reading.remaining
        if self._best is None:
            self._best = self._last = remaining
            return 0
        if len(remaining) != len(self._best):
            raise UsageError(f"remaining: expected {len(self._best)} components, got {remaining}")
        before, self._last = self._last, remaining
        if remaining < self._best:
            self._best = remaining
            return 1
        return -1 if remaining > before else 0


def improvements_max(first: Sequence[int], maxima: Sequence[int]) -> int:
    """Return how often progress can be positive after this reading: its rank in the order.

    Arguments:
        first: the components of the first reading.
        maxima: the largest value of each component after the first.

    Choices: it is exact: a run that improves by the smallest step each time reaches it.
    """
    rank = first[0]
    for component, most in zip(first[1:], maxima, strict=True):
        rank = rank * (most + 1) + component
    return rank


def coding_reading(
    *,
    required: Collection[str],
    existing: Collection[str],
    passing: Collection[str],
    compiler_errors: int,
    checker: str,
    checker_at_start: str,
) -> Reading:
    """Return (required tests that do not pass, compiler errors).

    Arguments:
        required: names of the tests that the task demands; existing: tests that there are now;
            passing: tests that ran and passed (a skipped one did not).
        checker, checker_at_start: digests of what runs and judges the tests.

    A required test that is gone does not pass. Violations: `tests_removed`, `checker_changed`.
    """
    present = set(existing)
    failing = set(required) - (set(passing) & present)
    violated = {
        "tests_removed": not present.issuperset(required),
        "checker_changed": checker != checker_at_start,
    }
    return _reading((len(failing), compiler_errors), violated)


def browser_reading(
    *,
    required: Mapping[str, str],
    filled: Mapping[str, str],
    recorded: Mapping[str, str] | None,
    confirmation_shown: bool,
) -> Reading:
    """Return (required fields without their value, 1 until the site confirms them all).

    Arguments:
        required: value due by field; filled: values that the form holds now.
        recorded: what the site has on record after a submission, None before.
        confirmation_shown: the page says that it is confirmed.

    Which page is seen, and how often, is no input: novelty is not progress. A recorded value
    counts although the form is empty again. Violation: `confirmation_forged` (nothing on record).
    """
    kept: Mapping[str, str] = recorded or {}
    missing = [
        name
        for name, value in required.items()
        if filled.get(name) != value and kept.get(name) != value
    ]
    on_record = all(kept.get(name) == value for name, value in required.items())
    confirmed = recorded is not None and confirmation_shown and on_record
    violated = {"confirmation_forged": confirmation_shown and recorded is None}
    return _reading((len(missing), 0 if confirmed else 1), violated)


def research_reading(
    *,
    required: Collection[str],
    support: Mapping[str, Collection[str]],
    origins: Mapping[str, str],
    read: Collection[str],
) -> Reading:
    """Return (required claims without enough independent sources, sources that they still lack).

    Arguments:
        required: claims that the task demands; support: cited sources by claim.
        origins: who stands behind a source; copies of one text have one origin, and a source
            that is not listed is its own. read: sources whose text was really fetched.

    Pages that are read and support nothing change nothing. Violation: `source_not_read`.
    """
    fetched = set(read)
    lacks: list[int] = []
    invented = False
    for claim in set(required):
        cited = set(support.get(claim, ()))
        invented = invented or not fetched.issuperset(cited)
        independent = {origins.get(source, source) for source in cited & fetched}
        lacks.append(max(0, SOURCES_MIN - len(independent)))
    unsupported = sum(lack > 0 for lack in lacks)
    return _reading((unsupported, sum(lacks)), {"source_not_read": invented})


def support_reading(
    *,
    records: Mapping[str, str],
    collected: Mapping[str, str],
    remediation: Collection[str],
    done: Sequence[str],
) -> Reading:
    """Return (required data not collected, steps of the known remediation not done).

    Arguments:
        records: the true value of every datum that the case requires; collected: what the agent
            wrote down. remediation: the steps that are known to help; done: effects in order.

    A made-up value is not collected. Violation: `effect_repeated`, a step done more than once.
    """
    missing = sum(collected.get(name) != value for name, value in records.items())
    steps = set(remediation)
    effects = [step for step in done if step in steps]
    violated = {"effect_repeated": len(effects) > len(set(effects))}
    return _reading((missing, len(steps) - len(set(effects))), violated)


def etl_reading(
    *,
    invalid_rows: int,
    schema_violations: int,
    rows: int,
    rows_at_start: int,
    schema: str,
    schema_at_start: str,
) -> Reading:
    """Return (invalid rows, schema violations).

    Arguments:
        rows: of the output, rejected ones included; rows_at_start: that there must be.
        schema, schema_at_start: digests of the rules that rows are held to.

    Violations: `rows_deleted` (there are fewer), `schema_changed`.
    """
    violated = {
        "rows_deleted": rows < rows_at_start,
        "schema_changed": schema != schema_at_start,
    }
    return _reading((invalid_rows, schema_violations), violated)


def jobs_reading(*, units: Collection[Hashable], done: Collection[Hashable]) -> Reading:
    """Return (units that are not done).

    Arguments:
        units: identities of the units that the task had at its start; done: those that the
            system of record calls done, each counted once.

    Violation: `unknown_units`, something is done that is no unit, so more than there is.
    """
    due, finished = set(units), set(done)
    return _reading((len(due - finished),), {"unknown_units": not due.issuperset(finished)})


def _reading(remaining: tuple[int, ...], violated: Mapping[str, bool]) -> Reading:
    return Reading(
        remaining=remaining,
        integrity=tuple(name for name, is_violated in violated.items() if is_violated),
    )
