"""A controller beside the policy ends the run between steps, and its stop does not project."""

import pytest

from loopcore.runtime.envelope import Control
from loopcore.runtime.tools import act, finish, tool
from loopcore.runtime.virtual import run_virtually
from loopcore.store.contract import StoreUnavailable
from properties.core.runner_worlds import DyingStore, Ledger, Script, Stores, agreed, run, runner


async def same(call: object) -> str:
    """Return one answer for every question."""
    return "the same set"


REPHRASED = [[act("search", {"words": n})] for n in range(20)]


def test_a_stop_of_the_controller_is_the_terminal() -> None:
    receipt, stores = run(
        lambda s: runner(
            s,
            REPHRASED,
            [tool("search", same, effect="none")],
            control=Control(level="D", limits={"window": 5}),
        )
    )
    assert receipt.terminal == "no_progress"
    assert receipt.on_step is None
    assert receipt.reason == "controller"
    verdict = agreed(stores.events("r"))
    assert verdict.receipt is not None
    assert verdict.receipt.terminal == "input_exhausted"
    assert verdict.receipt.usage == receipt.usage


def test_the_controllers_memory_is_a_fold_of_the_journal() -> None:
    def steps(dies_at: int) -> int:
        stores = Stores()
        control = Control(level="D", limits={"window": 5})
        tools = [tool("search", same, effect="none")]

        async def main() -> int:
            dying = DyingStore(stores.store, dies_at=dies_at, made=True)
            script = Script(REPHRASED)
            try:
                await runner(stores, script, tools, control=control, store=dying, worker="1").run(
                    "r"
                )
            except StoreUnavailable:
                receipt = await runner(stores, script, tools, control=control, worker="2").run("r")
                return receipt.usage.steps
            return -1

        return run_virtually(main())

    unbroken, _ = run(
        lambda s: runner(
            s,
            REPHRASED,
            [tool("search", same, effect="none")],
            control=Control(level="D", limits={"window": 5}),
        )
    )
    # An even number of appends after the first two is a step that was committed whole.
    assert {steps(dies_at) for dies_at in (3, 5, 7)} == {unbroken.usage.steps}


@pytest.mark.parametrize("level", ["A", "B", "C", "D"])
def test_a_controller_does_not_stop_work_that_makes_progress(level: str) -> None:
    control = Control(level="A" if level == "A" else "D")
    receipt, _ = run(
        lambda s: runner(
            s,
            [*[[act("t", {"n": n})] for n in range(12)], [finish()]],
            [tool("t", Ledger())],
            control=control,
        )
    )
    assert receipt.terminal == "completed"
