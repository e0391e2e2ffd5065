"""The properties of controllers, one file each, in the order of the specification's catalogue."""

from loopcore.testing.checks_controller.c01_step_bound import PROPERTY as C01
from loopcore.testing.checks_controller.c02_productive_runs import PROPERTY as C02
from loopcore.testing.checks_controller.c03_exemptions import PROPERTY as C03
from loopcore.testing.checks_controller.c04_order_of_levels import PROPERTY as C04
from loopcore.testing.checks_controller.c05_bounded_recoveries import PROPERTY as C05
from loopcore.testing.checks_controller.c06_rejected_finishes import PROPERTY as C06
from loopcore.testing.checks_controller.c07_repeatability import PROPERTY as C07
from loopcore.testing.checks_controller.c08_bounded_memory import PROPERTY as C08
from loopcore.testing.checks_controller.c09_spellings import PROPERTY as C09
from loopcore.testing.checks_controller.c10_marks import PROPERTY as C10
from loopcore.testing.controller_contract import ControllerProperty

CONTROLLER_CATALOGUE: tuple[ControllerProperty, ...] = (
    C01, C02, C03, C04, C05, C06, C07, C08, C09, C10,
)  # fmt: skip
