"""Hold a target to one property: search, count, shrink, and give one of five verdicts.

Theory of operation: explicit cases come first, then rounds of random search by Hypothesis, each
from a seed that is made of the run's seed, the property and the round, so that a run repeats
whatever else runs beside it. Every distinct case that exercises the property counts once. The first
finding starts the clock of shrinking; when it runs out the smallest failing case so far stands.

A search that takes longer than the profile's time ends with what it has: held where that is
enough, else unknown. A `TargetError` ends the search: the property is unknown, and the trouble is
reported for E15. For E15 itself, and when a trouble is made smaller for it, a `TargetError` is the
finding.

Choices: *smallest* is the shortest canonical JSON, then the first in order. A check that raises
anything else is a defect of the suite, and makes the property unknown, never held.

Source: spec verification, section 1.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Generic, cast

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings

from loopcore.errors import TargetError
from loopcore.testing.contract import T

if TYPE_CHECKING:
    from loopcore.testing.contract import Case, Invariant, Judgement, Verdict
    from loopcore.testing.profiles import Profile

TOTALITY = "E15"
# Further rounds of search, for goals not met yet and for cases that did not exercise the property.
ROUNDS_MAX = 4
_REASON_CHARACTERS_MAX = 600
_MISSING_SHOWN_MAX = 5
# How fast or how often cases are drawn is no health problem of the target under test.
_NO_HEALTH_CHECK = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A failing case.

    Fields:
        case: as it was before the target saw it; finding: what is wrong, in words.
        expected, got: the two sides, as JSON; request: what was sent, for a TargetError.
        kind: of the TargetError, else None.
    """

    case: Case
    finding: str
    expected: object = None
    got: object = None
    kind: str | None = None
    request: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a property stood; `broken` and `trouble` hold their smallest case.

    Fields:
        examples: distinct cases that exercised the property; vacuous: judged cases that did not.
        missing: goals never witnessed; notes: what the target was seen to do besides answering.
    """

    property_id: str
    verdict: Verdict
    reason: str | None = None
    examples: int = 0
    vacuous: int = 0
    labels: dict[str, int] = field(default_factory=dict[str, int])
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    broken: Found | None = None
    trouble: Found | None = None
    notes: tuple[str, ...] = ()


class _Failed(Exception):
    """A case failed: Hypothesis looks for a smaller one."""


class _Leave(BaseException):
    """The search is over; no Exception, since Hypothesis would take that for a failing case."""


def examine(
    examined: Invariant[T],
    target: T,
    profile: Profile,
    seed: int,
    *,
    totality: bool | None = None,
) -> Outcome:
    """Return how the property stands for the target.

    Arguments:
        seed: any integer; the same seed makes the same cases.
        totality: whether a TargetError is the finding, and the only one; by default for E15 it is.

    Time is bounded by the profile and one request's time limit. Raises nothing that a target does;
    KeyboardInterrupt passes through.
    """
    started = monotonic()
    search = _Search(examined, target, profile, seed, totality)
    try:
        with contextlib.suppress(_Leave):
            lack = search.lack()
            if lack is not None:
                return Outcome(property_id=examined.id, verdict="not applicable", reason=lack)
            search.run()
    except Exception as error:  # noqa: BLE001 a defect of the suite is unknown, never a pass
        search.note_defect(error)
    return search.conclude(monotonic() - started)


class _Search(Generic[T]):
    """What has been seen of one property so far."""

    def __init__(
        self,
        examined: Invariant[T],
        target: T,
        profile: Profile,
        seed: int,
        totality: bool | None,
    ) -> None:
        self._property = examined
        self._target = target
        self._profile = profile
        self._seed = seed
        # For E15 a finding in words counts beside a TargetError; elsewhere only the latter does.
        self._errors_fail = examined.id == TOTALITY if totality is None else totality
        self._words_fail = not self._errors_fail or examined.id == TOTALITY
        self._seen: set[bytes] = set()
        self._labels: Counter[str] = Counter()
        self._vacuous = 0
        self._smallest: tuple[int, str] | None = None
        self._broken: Found | None = None
        self._trouble: Found | None = None
        self._defect: str | None = None
        self._shrunk_by: float | None = None
        self._ends_at = monotonic() + profile.seconds
        self._is_late = False
        self._goals: frozenset[str] = frozenset()

    def lack(self) -> str | None:
        """Return why the property is not applicable; may raise _Leave."""
        try:
            return self._property.lack(self._target)
        except TargetError as error:
            with contextlib.suppress(_Failed):
                self._meet(error, "{}")
            raise _Leave from None

    def run(self) -> None:
        """Search until the verdict is clear; may raise _Leave."""
        self._goals = self._property.goals(self._target)
        for case in self._property.examples:
            try:
                self._look(case)
            except _Failed:
                break
        for number in range(ROUNDS_MAX):
            enough = len(self._seen) >= self._profile.examples and not self._missing()
            # The first round is always run: it may find a smaller case than an explicit one.
            if number and (enough or self._broken is not None):
                break
            known = len(self._seen)
            self._round(number)
            if self._broken is not None or len(self._seen) == known:
                break

    def _round(self, number: int) -> None:
        text = f"{self._seed}/{self._property.id}/{number}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

        @hypothesis.seed(seed)
        @settings(
            max_examples=self._profile.examples,
            database=None,
            deadline=None,
            derandomize=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=_NO_HEALTH_CHECK,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
        )
        @given(self._property.cases())
        def judge_one(case: Case) -> None:
            self._look(case)

        try:
            judge_one()
        except _Failed:
            return
        except Exception:
            # A target that answers one case in two ways makes Hypothesis give up; the finding is
            # real all the same.
            if self._broken is None:
                raise

    def _look(self, case: Case) -> None:
        """Judge one case; raise _Failed when it fails, _Leave when the search is over."""
        if self._shrunk_by is not None and monotonic() > self._shrunk_by:
            raise _Leave
        if monotonic() > self._ends_at:
            self._is_late = True
            raise _Leave
        text = _spelled(case)
        try:
            judgement = self._property.judge(self._target, case)
        except TargetError as error:
            self._meet(error, text)
            return
        except Exception as error:  # noqa: BLE001 the check is wrong, so nothing it says counts
            self.note_defect(error)
            raise _Leave from None
        if judgement.finding is not None and self._words_fail:
            self._note_broken(text, _found(text, judgement))
            raise _Failed
        if judgement.vacuous:
            self._vacuous += 1
            return
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in self._seen:
            self._seen.add(digest)
            self._labels.update(judgement.labels)

    def _meet(self, error: TargetError, text: str) -> None:
        found = Found(
            case=cast("Case", json.loads(text)),
            finding=f"{error.kind}: {error.message}",
            kind=error.kind,
            request=error.request,
        )
        if not self._errors_fail:
            self._trouble = found
            raise _Leave
        self._note_broken(text, found)
        raise _Failed

    def _note_broken(self, text: str, found: Found) -> None:
        size = (len(text), text)
        if self._smallest is None or size < self._smallest:
            self._smallest, self._broken = size, found
        if self._shrunk_by is None:
            self._shrunk_by = monotonic() + self._profile.shrink_seconds

    def note_defect(self, error: Exception) -> None:
        """Remember that the check, not the target, is wrong."""
        words = " ".join(str(error).split())[:_REASON_CHARACTERS_MAX]
        self._defect = f"the check itself failed ({type(error).__name__}: {words})"

    def _missing(self) -> tuple[str, ...]:
        return tuple(sorted(self._goals - self._labels.keys()))

    def conclude(self, seconds: float) -> Outcome:
        """Return the outcome that what was seen allows."""
        verdict, reason = self._verdict()
        return Outcome(
            property_id=self._property.id,
            verdict=verdict,
            reason=reason,
            examples=len(self._seen),
            vacuous=self._vacuous,
            labels=dict(sorted(self._labels.items())),
            missing=self._missing(),
            seconds=seconds,
            broken=self._broken,
            trouble=self._trouble,
            notes=tuple(getattr(self._target, "notes", ())),
        )

    def _verdict(self) -> tuple[Verdict, str | None]:
        if self._broken is not None:
            return "broken", self._broken.finding
        if self._trouble is not None:
            return "unknown", f"the target failed ({self._trouble.finding})"
        if self._defect is not None:
            return "unknown", self._defect
        missing = self._missing()
        needed = self._profile.examples
        if self._is_late and (missing or len(self._seen) < needed):
            limit = f"{self._profile.seconds:g} s were not enough for this target"
            return "unknown", f"{limit}: {len(self._seen)} examples, and {needed} are needed"
        if missing:
            rest = ", …" if len(missing) > _MISSING_SHOWN_MAX else ""
            shown = ", ".join(missing[:_MISSING_SHOWN_MAX]) + rest
            return "not exercised", f"never witnessed: {shown}"
        if len(self._seen) < needed:
            return "unknown", f"{len(self._seen)} examples, and {needed} are needed"
        return "held", None


def judge_case(examined: Invariant[T], target: T, case: Case) -> Judgement | TargetError:
    """Return what one saved case shows of the target, a TargetError being an answer like another.

    Raises whatever a check raises for a case that is not one of its own.
    """
    try:
        return examined.judge(target, case)
    except TargetError as error:
        return error


def _found(text: str, judgement: Judgement) -> Found:
    return Found(
        case=cast("Case", json.loads(text)),
        finding=judgement.finding or "",
        expected=judgement.expected,
        got=judgement.got,
    )


def _spelled(case: Case) -> str:
    """Return a case as canonical JSON text, taken before the target can change it."""
    return json.dumps(case, sort_keys=True, separators=(",", ":"))
