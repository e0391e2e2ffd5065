"""Claim: the proofs prove the evaluator, and refute each fault that is planted in it.

Each planted fault must be refuted by the theorem that is about it, with a trace on which the naive
model, asked again here, gives another answer than the faulty evaluator. A source that is not
understood is unknown.
"""

import inspect
import subprocess
import sys
from dataclasses import dataclass, field, replace

import pytest

from loopcore import evaluator
from loopcore.errors import UsageError
from loopcore.terminals import PRECEDENCE, USAGE_RULES
from loopcore.testing import naive
from loopcore.testing.building import EXTENDED, REFERENCE
from loopcore.testing.naive_wire import RELEASES
from loopcore.verification.proofs import run_proofs, supports
from loopcore.verification.proofs.concolic import SCENES, SECONDS_MAX, Scene, compare_scene
from loopcore.verification.proofs.finite import exhaust_cycles, exhaust_winner
from loopcore.verification.proofs.results import Counterexample, TheoremResult
from loopcore.verification.proofs.small_scope import exhaust_small_scope
from loopcore.verification.proofs.solver import solve
from loopcore.verification.proofs.stepping import SymbolicStep, symbolic_step
from loopcore.verification.proofs.subject import Subject, comparable, present_subject
from loopcore.verification.proofs.symbolic import prove_step, prove_unrolled
from loopcore.verification.proofs.theorems import THEOREMS

SOURCE = inspect.getsource(evaluator)
BY_NAME = {theorem.name: theorem for theorem in THEOREMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A change of the evaluator: a text that stands in it once, or tables, or both."""

    theorem: str
    text: str = ""
    replacement: str = ""
    tables: dict[str, object] = field(default_factory=dict[str, object])

    def subject(self) -> Subject:
        if self.text:
            assert SOURCE.count(self.text) == 1, self.text
        return Subject(source=SOURCE.replace(self.text, self.replacement), tables=self.tables)


def swapped(release: str, first: str, second: str) -> dict[str, object]:
    """Return the precedence tables with two rows of one release in each other's place."""
    exchange = {first: second, second: first}
    tables: dict[str, object] = {}
    for name, rows in PRECEDENCE.items():
        exchanged = tuple(exchange.get(row, row) for row in rows)
        tables[name] = exchanged if name == release else rows
    return {"PRECEDENCE": tables}


def without_repairs_by_a_model() -> dict[str, object]:
    """Return the usage tables with one row of the reference release left out."""
    tables: dict[str, object] = {}
    for name, rules in USAGE_RULES.items():
        fewer = {kind: rows[:1] for kind, rows in rules.items()}
        tables[name] = fewer if name == REFERENCE else rules
    return {"USAGE_RULES": tables}


FAULTS = {
    "cost stops at its bound": Fault(
        theorem="boundaries", text="cost > cost_max,", replacement="cost >= cost_max,"
    ),
    "the deadline itself passes": Fault(
        theorem="boundaries",
        text="completed_at >= deadline,",
        replacement="completed_at > deadline,",
    ),
    "one idle step too many": Fault(
        theorem="boundaries", text="idle >= idle_max,", replacement="idle > idle_max,"
    ),
    "tool calls are held against the model's bound": Fault(
        theorem="rules",
        text="model_calls > model_calls_max,",
        replacement="tool_calls > model_calls_max,",
    ),
    "two rows of the table are swapped": Fault(
        theorem="precedence",
        tables=swapped(REFERENCE, "deadline_exceeded", "no_progress"),
    ),
    "two neighbouring rows are swapped": Fault(
        theorem="precedence",
        tables=swapped(REFERENCE, "repeated_action", "no_progress"),
    ),
    "a usage row is missing": Fault(theorem="refusals", tables=without_repairs_by_a_model()),
    "the largest total is an overflow": Fault(
        theorem="refusals",
        text="cost_after > INTEGER_MAX",
        replacement="cost_after >= INTEGER_MAX",
    ),
    "time must increase": Fault(
        theorem="refusals",
        text="completed_at < ended_at:",
        replacement="completed_at <= ended_at:",
    ),
    "reused evidence completes": Fault(
        theorem="completion", text=" and proof not in seen", replacement=""
    ),
    "a repetition is never broken": Fault(
        theorem="arithmetic",
        text="same + 1 if action == last_action else 1",
        replacement="same + 1 if action == last_action else same + 1",
    ),
    "two counters are stored in each other's place": Fault(
        theorem="storing",
        text="self._calls = (steps, model_calls, tool_calls, repairs)",
        replacement="self._calls = (steps, tool_calls, model_calls, repairs)",
    ),
    "a kind without a row crashes": Fault(
        theorem="totality", text="if kind not in usage_rules:", replacement="if kind == '':"
    ),
}
# What no trace of three steps can show: only two runs are told apart, or a cycle is needed.
FINITE_FAULTS = {
    "the last row wins": Fault(
        theorem="winner",
        text="self.terminal = ordered[0]",
        replacement="self.terminal = ordered[-1]",
    ),
    "a cycle is found a pair late": Fault(
        theorem="cycles",
        text="streaks[length] >= length * (self._repeats - 1)",
        replacement="streaks[length] > length * (self._repeats - 1)",
    ),
}


def assert_refuted(result: TheoremResult, subject: Subject) -> Counterexample:
    """Check a refutation by asking the naive model and the faulty evaluator again."""
    assert result.verdict == "refuted", result.reason
    found = result.counterexample
    assert found is not None
    expected = naive.evaluate(found.policy, found.steps)
    got = subject.answer(found.policy, found.steps)
    assert comparable(expected) == comparable(found.expected)
    assert comparable(got) == comparable(found.got)
    assert comparable(expected) != comparable(got)
    # The evaluator without the fault agrees with the model on that trace.
    right = present_subject().answer(found.policy, found.steps)
    assert comparable(right) == comparable(expected)
    return found


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", BY_NAME)
def test_each_theorem_about_a_step_is_proved(name: str, release: str) -> None:
    result = prove_step(present_subject(), release, BY_NAME[name])
    assert result.verdict == "proved", result.reason
    assert result.count > 0


@pytest.mark.parametrize("release", RELEASES)
def test_traces_of_up_to_three_steps_are_judged_as_their_prefixes_demand(release: str) -> None:
    result = prove_unrolled(present_subject(), release)
    assert result.verdict == "proved", result.reason


@pytest.mark.parametrize("release", RELEASES)
def test_every_rule_and_every_refusal_is_possible_in_the_symbolic_step(release: str) -> None:
    made = symbolic_step(present_subject(), release, 2)
    rules = {rule: term for rule, term in made.fired.items() if rule in made.demand.fired}
    assert len(rules) == len(naive.precedence(release)) - 1
    exits = {left.code: left.guard for left in made.execution.exits}
    if release == EXTENDED:
        # The extended release has every kind.
        del exits["unsupported_kind"]
    impossible = [
        name
        for name, term in {**rules, **exits}.items()
        if solve(f"{made.script.text()}(assert {term})").status != "sat"
    ]
    assert not impossible


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_refuted_with_a_trace_that_the_model_confirms(fault: Fault) -> None:
    subject = fault.subject()
    assert_refuted(prove_step(subject, REFERENCE, BY_NAME[fault.theorem]), subject)


@pytest.mark.parametrize("fault", FINITE_FAULTS.values(), ids=FINITE_FAULTS)
def test_a_fault_in_what_is_finite_is_refuted_with_a_trace(fault: Fault) -> None:
    subject = fault.subject()
    if fault.theorem == "winner":
        assert_refuted(exhaust_winner(subject, REFERENCE), subject)
    else:
        assert_refuted(exhaust_cycles(subject), subject)


def test_a_bound_that_is_ignored_when_tight_breaks_the_theorem_on_loosening() -> None:
    fault = Fault(
        theorem="loosening",
        text="cost > cost_max,",
        replacement="cost > cost_max and cost_max > 7,",
    )
    subject = fault.subject()
    assert_refuted(prove_step(subject, REFERENCE, BY_NAME["loosening"]), subject)


@pytest.mark.parametrize(
    ("text", "replacement"),
    [
        ("repairs += deltas[2]", "repairs = sum((repairs, deltas[2]))"),
        ("terminal = self._end(fired, proof)", "terminal = self._finish_with(fired, proof)"),
        ("idle += 1", "idle *= 1"),
    ],
)
def test_a_source_that_is_not_understood_is_unknown_and_never_proved(
    text: str, replacement: str
) -> None:
    subject = Fault(theorem="", text=text, replacement=replacement).subject()
    results = [prove_step(subject, EXTENDED, theorem) for theorem in THEOREMS]
    results.append(prove_unrolled(subject, EXTENDED))
    assert {result.verdict for result in results} == {"unknown"}
    assert all("not translated" in (result.reason or "") for result in results)


def test_a_theorem_whose_assumptions_have_no_example_is_unknown() -> None:
    def contradict(step: SymbolicStep) -> dict[str, str]:
        step.script.require("false")
        return {"anything": "false"}

    theorem = replace(BY_NAME["rules"], obligations=contradict)
    result = prove_step(present_subject(), EXTENDED, theorem)
    assert result.verdict == "unknown"
    assert "no example" in (result.reason or "")


@pytest.mark.parametrize("release", RELEASES)
def test_the_winner_is_right_for_every_combination_of_rules(release: str) -> None:
    result = exhaust_winner(present_subject(), release)
    assert result.verdict == "proved", result.reason
    assert result.count == 2 ** (len(naive.precedence(release)) - 1) - 1


@pytest.mark.slow
def test_the_cycle_detector_answers_by_the_definition_on_all_short_sequences() -> None:
    result = exhaust_cycles(present_subject())
    assert result.verdict == "proved", result.reason
    assert result.count == 1_574_720


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_every_path_of_a_scene_is_taken_and_agrees(scene: Scene) -> None:
    result = compare_scene(present_subject(), scene, SECONDS_MAX)
    assert result.verdict == "proved", result.reason
    assert result.count > 1


@pytest.mark.parametrize(
    ("scene", "fault"),
    [("cost", "cost stops at its bound"), ("times", "the deadline itself passes")],
)
def test_a_planted_fault_is_found_on_a_path(scene: str, fault: str) -> None:
    subject = FAULTS[fault].subject()
    (chosen,) = (each for each in SCENES if each.name == scene)
    assert_refuted(compare_scene(subject, chosen, SECONDS_MAX), subject)


def test_paths_that_were_not_all_seen_are_unknown() -> None:
    result = compare_scene(present_subject(), SCENES[0], 0.01)
    assert result.verdict == "unknown"


def test_the_small_scope_refutes_a_planted_fault() -> None:
    subject = FAULTS["cost stops at its bound"].subject()
    assert_refuted(exhaust_small_scope(subject, REFERENCE, length=3), subject)


def test_what_was_proved_is_said_for_each_property() -> None:
    result = run_proofs(["concolic"])
    assert len(result.theorems) == len(SCENES)
    assert "E06" in supports(result)


def test_a_kind_of_proof_that_there_is_not_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no kind 'magic'"):
        run_proofs(["magic"])


# Whether a sum of three cubes is 114 is not known, so z3 is busy until its time is over.
BUSY = """
import os, signal, threading
from loopcore.verification.proofs.solver import solve
names = "xyz"
cubes = " ".join(f"(* {name} {name} {name})" for name in names)
script = "".join(f"(declare-const {name} Int)" for name in names)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    solve(script + f"(assert (= (+ {cubes}) 114)) (assert (> x 1000))", seconds=3600)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_stops_z3_and_is_no_answer_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUSY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
