"""The first screen: one sentence on the whole, and the facts that a reader must have beside it.

Theory of operation: the outcome is the worst of what the results say, in the order broken,
survived, unknown, held. An interrupted run, a crash or a sample too small is unknown, never a pass.

Source: spec verification, section 1; spec evaluator, section 4 (completion); spec control, section
5 (the first fact).
"""

from __future__ import annotations

from collections.abc import Sequence

from loopcore.comparison import bench_tables
from loopcore.comparison.audit import AuditResult
from loopcore.comparison.bench_results import BenchResult
from loopcore.reporting.inputs import Results
from loopcore.reporting.view import Fact, Outcome, grouped, listing, plural, plural_of
from loopcore.results import MutateResult, PropertyResult, Verdict, VerifyResult

# Non-vacuous examples that `held` needs at least. Source: spec verification, section 1.
EXAMPLES_MIN = {"quick": 50, "default": 500, "thorough": 5_000}
_OPEN: tuple[Verdict, ...] = ("unknown", "not exercised")
KINDS = {
    "evaluator": "evaluators",
    "controller": "controllers",
    "loop": "live loops",
    "store": "journal stores",
}
LEVELS = ("A", "B", "C", "D")
IDENTITY_ONLY = "completion: identity only"


def outcome(results: Results) -> Outcome:
    """Return what the results say as a whole, the worst first."""
    verify, mutate, lab = results.verify, results.mutate, results.lab
    broken = bool(verify and with_verdict(verify, "broken")) or bool(lab and lab.passed < lab.total)
    if broken:
        return "broken"
    if mutate and (survivors(mutate) or disagreements(mutate)):
        return "survived"
    if verify is None:
        return "nothing" if mutate is None and lab is None else "unknown"
    open_ends = verify.interrupted or not verify.properties or with_verdict(verify, *_OPEN)
    if open_ends or (mutate and (mutate.interrupted or unmade(mutate))):
        return "unknown"
    return "held"


def with_verdict(verify: VerifyResult, *verdicts: Verdict) -> list[PropertyResult]:
    """Return the properties that have one of the verdicts, in their order."""
    return [one for one in verify.properties if one.verdict in verdicts]


def survivors(mutate: MutateResult) -> list[str]:
    """Return the planted faults that no property caught."""
    return [one.id for one in mutate.mutants if one.verdict == "survived"]


def unmade(mutate: MutateResult) -> list[str]:
    """Return the planted faults that could not be made or run."""
    return [one.id for one in mutate.mutants if one.verdict == "broken"]


def disagreements(mutate: MutateResult) -> list[str]:
    """Return the altered traces that did not get their expected verdict."""
    return [one.id for one in mutate.trace_cases if not one.agreed]


def what_subset(mutate: MutateResult) -> str:
    """Return what a subset of faults holds, in words, without the word itself."""
    return (mutate.subset or "").removeprefix("subset: ").rstrip(".")


def verdict(results: Results) -> str:
    """Return the whole in words for a reader who knows nothing of the project."""
    verify, mutate = results.verify, results.mutate
    if verify is None:
        return "No evaluator was verified here, so this report gives no verdict on one."
    name = verify.target.name
    bad = with_verdict(verify, "broken")
    tested = len(verify.properties) - len(with_verdict(verify, "not applicable"))
    if bad:
        return (
            f"{name} failed: it broke {len(bad)} of {plural(tested, 'rule')} that it was tested"
            f" on, {listing([one.id for one in bad])}."
        )
    unclear = with_verdict(verify, *_OPEN)
    if unclear or verify.interrupted or not verify.properties:
        which = f" ({listing([one.id for one in unclear])})" if unclear else ""
        cut = ", and the tests were interrupted" if verify.interrupted else ""
        return (
            f"No verdict on {name} yet: {len(unclear)} of {plural(tested, 'rule')} could not be"
            f" judged{which}{cut}; none was found broken."
        )
    rules = "the one rule" if tested == 1 else f"all {plural(tested, 'rule')}"
    return f"{name} kept {rules} that it was tested on{_sharp(mutate)}"


def _sharp(mutate: MutateResult | None) -> str:
    """Return what the planted faults say of the tests, as the end of a sentence."""
    if mutate is None:
        return "; whether the tests would notice a fault was not checked."
    alive, amiss = survivors(mutate), disagreements(mutate)
    made = [one for one in mutate.mutants if one.verdict in ("killed", "survived")]
    if alive or amiss:
        parts: list[str] = []
        if alive:
            parts.append(f"{len(alive)} of {plural(len(made), 'planted fault')} went unnoticed")
        if amiss:
            parts.append(f"{plural(len(amiss), 'altered trace')} got a wrong verdict")
        return f", but {' and '.join(parts)}."
    if not made:
        return "; no planted fault was tried against the tests."
    end = " so far tried" if mutate.interrupted else ""
    some = " (a subset of all)" if mutate.subset else ""
    return f", and the tests caught all {plural(len(made), 'planted fault')}{some}{end}."


def facts(results: Results) -> tuple[Fact, ...]:
    """Return the lines of the first screen, in their order."""
    lines: list[Fact] = []
    if results.verify is not None:
        lines += _target(results.verify)
    lines.append(
        Fact(
            label="Completion",
            sentences=(
                IDENTITY_ONLY,
                "A run counts as completed when it names a fresh proof; whether the proof is true"
                " was not checked.",
            ),
        )
    )
    lines.append(_first_fact(results.audits, results.samples))
    if results.bench is not None:
        lines.append(_worlds(results.bench))
    lines.append(Fact(label="Covered", sentences=_covered(results)))
    lines.append(Fact(label="Not covered", sentences=_not_covered(results), tone="doubt"))
    return tuple(lines)


def _target(verify: VerifyResult) -> list[Fact]:
    target = verify.target
    minimum = EXAMPLES_MIN.get(verify.profile)
    needed = f", at least {grouped(minimum)} examples for each rule" if minimum else ""
    examples = [one.examples for one in verify.properties if one.verdict == "held"]
    cases = sum(one.examples for one in verify.properties)
    smallest = f"; fewest for a rule that held: {grouped(min(examples))}" if examples else ""
    return [
        Fact(
            label="Target",
            sentences=(
                f"{target.name} {target.version}, kind {verify.kind}, releases"
                f" {listing(target.releases) or 'none'}, judged on {target.wire}.",
            ),
        ),
        Fact(label="Profile", sentences=(f"{verify.profile}{needed}; seed {verify.seed}.",)),
        Fact(
            label="n",
            sentences=(
                f"{plural(cases, 'example')} over {plural(len(verify.properties), 'rule')}"
                f"{smallest}.",
            ),
        ),
    ]


def _first_fact(audits: Sequence[AuditResult], samples: AuditResult | None) -> Fact:
    """Return, for each coding set, how many successes a naive repetition rule stops."""
    label = "Naive rule"
    found = tuple(fact.sentence for one in audits for fact in one.first_fact)
    if found:
        return Fact(label=label, sentences=found, tone="bad" if _stops(audits) else "plain")
    if audits:
        return Fact(label=label, sentences=("No coding set is among the recorded runs given.",))
    if samples is not None and samples.first_fact:
        return Fact(
            label=label,
            sentences=(
                "No recorded runs were given. On the shipped samples, which we wrote ourselves and"
                " which are no evidence about agents:",
                *(fact.sentence for fact in samples.first_fact),
            ),
        )
    return Fact(label=label, sentences=("Unknown: no recorded runs were given.",), tone="doubt")


def _worlds(bench: BenchResult) -> Fact:
    """Return the levels' false stops and cost per success over all step-wise tasks."""
    sentences: list[str] = []
    for tier in bench.tiers[:1]:
        family = tier.families[-1]
        shown = [
            f"{row.name} {bench_tables.shown(row, 'false_stop_rate')} and"
            f" {bench_tables.shown(row, 'cost_per_success')}"
            for row in family.rows
            if row.gate == "verify" and row.rho is None and row.name in LEVELS
        ]
        sentences.append(
            f"On {plural(family.tasks, 'task')} of worlds that we built, false stops and cost per"
            f" verified success (millions): {'; '.join(shown)}."
        )
        sentences += bench_tables.cap_in_words(family)
    return Fact(label="Worlds", sentences=tuple(sentences) or ("Nothing was finished.",))


def _stops(audits: Sequence[AuditResult]) -> bool:
    return any(fact.stopped.hits for one in audits for fact in one.first_fact)


def _covered(results: Results) -> tuple[str, ...]:
    lines: list[str] = []
    if results.verify is not None:
        held = with_verdict(results.verify, "held")
        lines.append(f"{len(held)} of {plural(len(results.verify.properties), 'rule')} held.")
        met = [
            f"{sum(times > 0 for times in things.values())} of {len(things)} {plural_of(kind)}"
            for kind, things in results.verify.coverage.items()
        ]
        if met:
            lines.append(f"Met among generated traces: {', '.join(met)}.")
    if results.mutate is not None:
        cases = results.mutate.trace_cases
        agreed = sum(one.agreed for one in cases)
        killed = sum(one.verdict == "killed" for one in results.mutate.mutants)
        lines.append(
            f"{plural(killed, 'planted fault')} caught; {agreed}"
            f" of {plural(len(cases), 'altered trace')} judged as expected."
        )
    runs = sum(one.runs for audit in results.audits for one in audit.sets)
    sets = sum(len(audit.sets) for audit in results.audits)
    if sets:
        lines.append(
            f"{plural(runs, 'recorded run')} in {plural(sets, 'set')} compared, each set alone."
        )
    if results.bench is not None:
        tasks = sum(tier.families[-1].tasks for tier in results.bench.tiers)
        lines.append(
            f"{plural(tasks, 'task')} of {plural(len(results.bench.applications), 'application')}"
            " with known truth played."
        )
    if results.lab is not None:
        lines.append(f"{results.lab.passed} of {results.lab.total} lab cases ended as they should.")
    return tuple(lines) or ("Nothing.",)


def _not_covered(results: Results) -> tuple[str, ...]:
    lines: list[str] = []
    verify, mutate = results.verify, results.mutate
    tested: set[str] = set() if verify is None else {verify.kind}
    others = [words for kind, words in KINDS.items() if kind not in tested]
    lines.append(f"Not tested here: {', '.join(others)}.")
    if verify is not None:
        for kind, things in verify.coverage.items():
            missing = [name for name, times in things.items() if times == 0]
            if missing:
                lines.append(f"Never met among {plural_of(kind)}: {listing(missing)}.")
        aside = with_verdict(verify, "not applicable")
        if aside:
            lines.append(f"Not applicable: {listing([one.id for one in aside])}.")
        unclear = with_verdict(verify, *_OPEN)
        if unclear:
            lines.append(f"Unknown: {listing([one.id for one in unclear])}.")
    if mutate is None:
        lines.append("No faults were planted.")
    elif mutate.subset:
        lines.append(f"Planted faults are a subset: {what_subset(mutate)}.")
    if not results.audits:
        lines.append("No recorded runs of real agents were compared.")
    problems = sum(len(audit.problems) for audit in results.audits)
    if problems:
        lines.append(f"{plural(problems, 'log file')} could not be read.")
    return tuple(lines)
