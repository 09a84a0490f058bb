"""The kinds of cohort, as they are looked up by name."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from palpate.cli.build import cohort
from palpate.data.cohorts import KINDS, find_kind
from palpate.errors import CohortError, ConfigError


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_options_and_a_builder_that_takes_them(name: str, tmp_path: Path) -> None:
    kind = find_kind(name)
    assert kind.name == name
    assert kind.options().model_config["extra"] == "forbid"
    assert list(inspect.signature(kind.build).parameters) == ["source", "options", "name", "progress"]
    with pytest.raises(CohortError):
        kind.build(tmp_path, options=kind.options(), name="mine")


def test_an_unknown_kind_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="unknown kind of cohort 'readmisson'; choose one of readmission, outcomes, "):
        find_kind("readmisson")


def test_the_help_names_every_kind() -> None:
    (argument,) = inspect.get_annotations(cohort, eval_str=True)["kind"].__metadata__
    assert set(argument.help.removesuffix(".").replace(" or ", ", ").split(", ")) == set(KINDS)
