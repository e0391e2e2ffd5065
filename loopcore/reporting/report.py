"""Results become one report: HTML for people, Markdown for a change request, JSON for machines.

Theory of operation: the results are put into a view model once; the three forms are renderings of
it. Nothing is measured, and nothing is read from a clock, so the same results give the same bytes.

Source: spec control, section 5; spec evaluator, section 4; spec verification, sections 1 and 3.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from loopcore import __version__
from loopcore.files import write_whole
from loopcore.reporting import comparisons, html, markdown, sections, worlds
from loopcore.reporting.inputs import Results
from loopcore.reporting.verdict import facts, outcome, verdict
from loopcore.reporting.view import Report, Section, listing

FILES = ("report.html", "report.md", "report.json")


def build(results: Results) -> Report:
    """Return the view model of the results."""
    chapters: list[Section] = []
    if results.verify is not None:
        chapters.append(sections.properties(results.verify))
        chapters.append(sections.coverage(results.verify))
    if results.mutate is not None:
        chapters.append(sections.mutations(results.mutate))
    if results.bench is not None:
        chapters += worlds.worlds(results.bench, results.audits)
    if results.audits:
        chapters += comparisons.recordings(results.audits)
    if results.samples is not None:
        chapters += comparisons.authored(results.samples)
    if results.lab is not None:
        chapters.append(sections.laboratory(results.lab))
    chapters += [_reproduce(results), _versions(results), _limits(results)]
    return Report(
        loopcore_version=__version__,
        outcome=outcome(results),
        verdict=verdict(results),
        incomplete=_incomplete(results),
        facts=facts(results),
        sections=tuple(chapters),
    )


def write(report: Report, folder: Path) -> Path:
    """Put the three forms into the folder, the page last; return the page's path.

    Each file is whole at any time. All three are made before the first is written.
    """
    forms = {
        "report.json": as_json(report),
        "report.md": markdown.render(report).encode(),
        "report.html": html.render(report).encode(),
    }
    for name, data in forms.items():
        write_whole(folder / name, data)
    return folder / FILES[0]


def as_json(report: Report) -> bytes:
    """Return the report as indented JSON with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def _incomplete(results: Results) -> str | None:
    """Return in words what was not finished, None when everything asked for was."""
    reasons: list[str] = []
    if results.assessment is not None:
        for stage in results.assessment.stages:
            if stage.state != "done":
                why = f" ({stage.reason.rstrip('.')})" if stage.reason else ""
                reasons.append(f"{stage.name} {stage.state}{why}")
    elif results.verify is not None and results.verify.interrupted:
        reasons.append("verify interrupted")
    elif results.mutate is not None and results.mutate.interrupted:
        reasons.append("mutate interrupted")
    elif any(not one.complete for one in results.audits):
        reasons.append("compare interrupted")
    elif results.bench is not None and not results.bench.complete:
        reasons.append("bench interrupted")
    return f"{'; '.join(reasons)}." if reasons else None


def _reproduce(results: Results) -> Section:
    assessment = results.assessment
    commands: list[str] = []
    if assessment is not None:
        commands.append(f"{assessment.command} --out {shlex.quote(assessment.folder)}")
    target = "" if assessment is None or not assessment.target else f" {assessment.target}"
    verify = results.verify
    if verify is not None:
        commands.append(
            f"loopcore verify{target} --profile {shlex.quote(verify.profile)} --seed {verify.seed}"
        )
        place = "DIR" if assessment is None else assessment.folder
        commands += [
            f"loopcore verify{target} --rerun"
            f" {shlex.quote(f'{place}/verify/counterexamples/{one.counterexample}')}"
            for one in verify.properties
            if one.counterexample is not None
        ]
    if results.mutate is not None:
        quick = " --quick" if results.mutate.subset else ""
        commands.append(f"loopcore mutate{quick}{_seed(results)}")
    logs = "LOG..." if assessment is None else shlex.join(assessment.logs)
    commands += [f"loopcore audit {logs} --seed {one.seed}" for one in results.audits]
    if results.bench is not None:
        commands.append(
            f"loopcore bench --tasks {results.bench.columnar_tasks} --stepwise"
            f" {results.bench.stepwise_tasks} --applications"
            f" {','.join(results.bench.applications)} --seed {results.bench.seed}"
        )
    if results.lab is not None:
        commands.append("loopcore lab")
    if assessment is not None:
        commands.append(f"loopcore report {shlex.quote(assessment.folder)}")
    return Section(
        id="reproduce",
        title="How to reproduce this",
        sentences=(
            "With the same version, seed and inputs, the verdicts and counts come out the same;"
            " only the seconds differ. From the result files alone, `loopcore report` makes this"
            " page again, byte for byte.",
        ),
        commands=tuple(commands),
    )


def _seed(results: Results) -> str:
    """Return the option that draws the same faults again, as far as the results tell."""
    return "" if results.verify is None else f" --seed {results.verify.seed}"


def _versions(results: Results) -> Section:
    made = {one.loopcore_version for one in (results.verify, results.mutate) if one is not None}
    lines = [f"Rendered by loopcore {__version__}."]
    if made:
        lines.append(f"Results made by loopcore {listing(sorted(made))}.")
    if results.assessment is not None:
        named = [f"{name} {version}" for name, version in results.assessment.versions.items()]
        if named:
            lines.append(f"With {listing(named, len(named))}.")
    return Section(id="versions", title="Versions", sentences=tuple(lines))


def _limits(results: Results) -> Section:
    lines = [
        "A rule that held was sampled, not proved, unless its support says otherwise: a fault that"
        " the generated traces never exercise stays unseen.",
        "The evaluator checks identity, not truth: `completed` says that a fresh proof was named.",
    ]
    if results.mutate is not None:
        lines.append(
            "Planted faults were put into the reference evaluator, not into the target: they say"
            " how sharp the tests are, and nothing about the target."
        )
    if results.bench is not None:
        lines.append(
            "Worlds are ours: their agents have the habits that we gave them, in shares that we"
            " chose. How an agent answers a recovery is a parameter, so level E is a curve."
        )
    if results.audits or results.samples is not None:
        lines += [
            "A recording shows what happened, not what would have happened after a warning or a"
            " recovery; that is unknown here.",
            "Failures at a set's own cap are censored: they might have verified later.",
            "Runs of one task are not independent, so the interval on tasks is the one to trust.",
        ]
    return Section(id="limits", title="What this does not show", sentences=tuple(lines))
