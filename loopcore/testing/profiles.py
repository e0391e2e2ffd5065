"""How hard a run looks: the examples that *held* needs, and how long search and shrinking may take.

Source: spec verification, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopcore.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One amount of work.

    Fields:
        examples: non-vacuous, distinct cases that a property needs to be called *held*.
        shrink_seconds: how long a failing case may be made smaller.
        seconds: how long one property may be searched; a target that is too slow stays unknown.
    """

    name: str
    examples: int
    shrink_seconds: float
    seconds: float = 3600.0


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name="quick", examples=50, shrink_seconds=2.0, seconds=60.0),
        Profile(name="default", examples=500, shrink_seconds=10.0, seconds=600.0),
        Profile(name="thorough", examples=5000, shrink_seconds=60.0, seconds=3600.0),
    )
}


def find_profile(name: str) -> Profile:
    """Return the profile of that name; raise UsageError naming those that there are."""
    if name not in PROFILES:
        raise UsageError(f"there is no profile {name!r}; the profiles are {', '.join(PROFILES)}")
    return PROFILES[name]
