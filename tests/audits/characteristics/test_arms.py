"""Arms, their groups and their reference groups."""

from __future__ import annotations

import pytest

from palpate.audits.characteristics.arms import age_groups, arm_specs, references
from palpate.errors import ConfigError

KNOWN = {"gender": ("female", "male"), "ethnicity": ("none", "White"), "age": ("20", "40", "60")}


def test_arms_and_combinations() -> None:
    specs = arm_specs(("gender", "gender+ethnicity"), KNOWN)
    assert specs[1].name == "gender+ethnicity"
    assert specs[1].names == ("female+none", "female+White", "male+none", "male+White")
    assert specs[1].mappings()[1] == {"gender": "female", "ethnicity": "White"}
    chosen = references(specs, {"ethnicity": "White"}, {})
    assert [spec.names[k] for spec, k in zip(specs, chosen, strict=True)] == ["male", "male+White"]


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (("gender+gender",), "names a characteristic twice"),
        (("gender", "gender"), "names a characteristic twice"),
        ((), "names no characteristic"),
    ],
)
def test_wrong_arms(alter: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        arm_specs(alter, KNOWN)


def test_references_by_default() -> None:
    specs = arm_specs(("gender", "ethnicity", "age"), KNOWN)
    assert references(specs, {}, {"age": ["55", "90+", None, "52"]}) == [1, 0, 2]
    assert references(specs, {}, {}) == [1, 0, 1], "without any known age the one in the middle"
    with pytest.raises(ConfigError, match="gender has no 'dog'; the groups are: female, male"):
        references(specs, {"gender": "dog"}, {})
    with pytest.raises(ConfigError, match="'weight' is not altered"):
        references(specs, {"weight": "obese"}, {})


def test_ages_that_can_be_written() -> None:
    assert age_groups((60, "90+", 20)) == ("20", "60", "90+")
    for wrong in (0, 17, 90, "old", "6.5", -3, "4²"):
        with pytest.raises(ConfigError, match="can't be written into a note"):
            age_groups((20, wrong))
    with pytest.raises(ConfigError, match="given twice"):
        age_groups((20, "20"))
