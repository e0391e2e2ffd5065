"""Results made by hand for the tests about reports, and a reader of the page's tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import msgspec

from loopcore.comparison.audit import AuditResult, audit
from loopcore.control.observations import Observation, Usage
from loopcore.recordings.model import Loaded, Run
from loopcore.reporting.inputs import Results
from loopcore.results import (
    MutantResult,
    MutateResult,
    PropertyResult,
    TargetFacts,
    TraceCaseResult,
    Verdict,
    VerifyResult,
)

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use"}


def held(
    name: str, *, verdict: Verdict = "held", reason: str | None = None, file: str | None = None
) -> PropertyResult:
    """Return a property's result with an odd number of examples."""
    return PropertyResult(
        id=name,
        name=f"name of {name}",
        statement=f"{name} is so",
        verdict=verdict,
        reason=reason,
        examples=1_234,
        vacuous=7,
        support="sampled (1234)",
        seconds=0.517,
        counterexample=file,
    )


def verified(*properties: PropertyResult, name: str = "their evaluator") -> VerifyResult:
    """Return a verify result with some coverage, of which one terminal was never met."""
    return VerifyResult(
        loopcore_version="9.8.7",
        target=TargetFacts(
            name=name, version="3", releases=("loopcore-reference/1",), wire="bytes"
        ),
        kind="evaluator",
        profile="quick",
        seed=11,
        properties=properties or (held("E01"), held("E02")),
        coverage={"terminals": {"completed": 41, "no_progress": 0}, "pairs": {"a before b": 5}},
    )


def mutant(name: str, *, survived: bool = False) -> MutantResult:
    """Return a planted fault that E01 caught, or that nothing caught."""
    return MutantResult(
        id=name,
        module="loopcore.evaluator",
        reason=f"what {name} does",
        verdict="survived" if survived else "killed",
        killer="E01",
        killed_by=() if survived else ("E01", "E02"),
        cases=17,
        seconds=0.25,
    )


def mutated(*mutants: MutantResult, agreed: bool = True, subset: str | None = None) -> MutateResult:
    """Return a mutate result with one altered trace."""
    case = TraceCaseResult(
        id="drop-1",
        operator="drop",
        expected="sequence_gap",
        got="sequence_gap" if agreed else "completed",
        agreed=agreed,
    )
    return MutateResult(
        loopcore_version="9.8.7",
        subset=subset,
        trace_cases=(case,),
        mutants=mutants or (mutant("m1"),),
        properties=("E01", "E02"),
    )


def recorded(
    task: str,
    calls: list[str],
    *,
    success: bool,
    set_name: str = "InterCode",
    censored: bool = False,
    model: str = "a-model",
) -> Run:
    """Return a run of one call a turn, whose progress nobody knows."""
    return Run(
        set=set_name,
        format="by hand",
        run_id=f"{task}-run",
        task=task,
        trial=0,
        model=model,
        success=success,
        outcome="by hand",
        censored=censored,
        signal="none",
        observations=tuple(
            Observation(
                turn=turn,
                action=1,
                tool="shell",
                arguments={"command": call},
                result=f"result of {call}",
                usage=Usage(model_calls=1, tool_calls=1, cost_microunits=1_000),
            )
            for turn, call in enumerate(calls, start=1)
        ),
        source="by hand",
        cost_known=True,
    )


def loaded(*runs: Run) -> Loaded:
    """Return runs as a loader gives them."""
    return Loaded(runs=runs, listed=(), problems=())


def distinct(number: int) -> list[str]:
    """Return calls of which no two are alike."""
    return [f"call {index}" for index in range(number)]


def audited(*runs: Run, authored: bool = False) -> AuditResult:
    """Return the audit of runs."""
    return msgspec.structs.replace(audit(loaded(*runs)), authored=authored)


def mixed_audit(set_name: str = "InterCode", tasks: int = 40) -> AuditResult:
    """Return the audit of a set in which some successes repeat a call three times."""
    runs: list[Run] = []
    for index in range(tasks):
        calls = distinct(6)
        if index % 8 == 0:
            calls = ["again", "a", "again", "b", "again", "c"]
        runs.append(recorded(f"good {index}", calls, success=True, set_name=set_name))
        stuck = [*distinct(3), *["stuck"] * 9]
        runs.append(
            recorded(
                f"bad {index}", stuck, success=False, set_name=set_name, censored=index % 2 == 0
            )
        )
    return audited(*runs)


def everything() -> Results:
    """Return results of every kind."""
    return Results(
        verify=verified(
            held("E01"), held("E02"), held("E16", verdict="not applicable", reason="x")
        ),
        mutate=mutated(mutant("m1"), mutant("m2"), subset="two faults only"),
        audits=(mixed_audit(),),
        samples=audited(recorded("ours", distinct(3), success=True), authored=True),
    )


@dataclass
class Page(HTMLParser):
    """What a page holds: its elements with their attributes, its tables cell by cell, its text."""

    elements: list[tuple[str, dict[str, str | None]]] = field(
        default_factory=list[tuple[str, dict[str, str | None]]]
    )
    tables: list[list[list[str]]] = field(default_factory=list[list[list[str]]])
    open: list[str] = field(default_factory=list[str])
    text: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element, and begin a table, row or cell."""
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """Close the element, which must be the innermost one."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the text, in its cell where it stands in one."""
        self.text.append(data)
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data


def parsed(html: str) -> Page:
    """Return what a page holds; it is well nested."""
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page
