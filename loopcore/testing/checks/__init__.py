"""The properties of evaluators, one file each, in the order of the specification's catalogue."""

from loopcore.testing.checks.e01_replay import PROPERTY as E01
from loopcore.testing.checks.e02_precedence import PROPERTY as E02
from loopcore.testing.checks.e03_prefixes import PROPERTY as E03
from loopcore.testing.checks.e04_post_terminal import PROPERTY as E04
from loopcore.testing.checks.e05_loosening import PROPERTY as E05
from loopcore.testing.checks.e06_boundaries import PROPERTY as E06
from loopcore.testing.checks.e07_completion import PROPERTY as E07
from loopcore.testing.checks.e08_fresh_evidence import PROPERTY as E08
from loopcore.testing.checks.e09_renaming import PROPERTY as E09
from loopcore.testing.checks.e10_shifting import PROPERTY as E10
from loopcore.testing.checks.e11_defects import PROPERTY as E11
from loopcore.testing.checks.e12_evidence_order import PROPERTY as E12
from loopcore.testing.checks.e13_tampering import PROPERTY as E13
from loopcore.testing.checks.e14_strict_text import PROPERTY as E14
from loopcore.testing.checks.e15_totality import PROPERTY as E15
from loopcore.testing.checks.e16_incremental import PROPERTY as E16
from loopcore.testing.checks.e17_cycles import PROPERTY as E17
from loopcore.testing.checks.e18_reachability import PROPERTY as E18
from loopcore.testing.contract import Property

CATALOGUE: tuple[Property, ...] = (
    E01, E02, E03, E04, E05, E06, E07, E08, E09, E10, E11, E12, E13, E14, E15, E16, E17, E18,
)  # fmt: skip
