"""The properties of stores, one file each, in order."""

from loopcore.testing.checks_store.s01_compare_and_swap import PROPERTY as S01
from loopcore.testing.checks_store.s02_fencing import PROPERTY as S02
from loopcore.testing.checks_store.s03_leases import PROPERTY as S03
from loopcore.testing.checks_store.s04_whole_batches import PROPERTY as S04
from loopcore.testing.checks_store.s05_exact_events import PROPERTY as S05
from loopcore.testing.checks_store.s06_reading import PROPERTY as S06
from loopcore.testing.checks_store.s07_separate_runs import PROPERTY as S07
from loopcore.testing.checks_store.s08_several_handles import PROPERTY as S08
from loopcore.testing.checks_store.s09_contention import PROPERTY as S09
from loopcore.testing.checks_store.s10_durability import PROPERTY as S10
from loopcore.testing.checks_store.s11_crashes import PROPERTY as S11
from loopcore.testing.checks_store.s12_agreement import PROPERTY as S12
from loopcore.testing.checks_store.s13_terminals_are_events import PROPERTY as S13
from loopcore.testing.store_contract import StoreProperty

STORE_CATALOGUE: tuple[StoreProperty, ...] = (
    S01, S02, S03, S04, S05, S06, S07, S08, S09, S10, S11, S12, S13,
)  # fmt: skip
