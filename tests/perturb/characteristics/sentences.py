"""The hard sentences of sentences.tsv: templates that give the text of every group."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from palpate.perturb.characteristics.grammar import in_words

AGES = (*map(str, range(18, 90)), "90+")
ETHNICITIES = ("none", "White", "African American", "Hispanic", "Asian")
_OVER = {"III": "[**Age over 90 **]"}


@dataclass(frozen=True)
class Sentence:
    """A template and its options."""

    template: str
    options: dict[str, str]

    @property
    def start(self) -> dict[str, str]:
        """The groups of the original."""
        return {"gender": self.options.get("from", "male"), "age": self.options.get("age", "63"), "ethnicity": "none"}

    def write(self, gender: str, age: str, ethnicity: str) -> str:
        """The text of a group."""
        text = self.template.replace("\\n", "\n")
        text = re.sub(r"<([^|>]*)\|([^>]*)>", lambda m: m[2 if gender in ("male", "trans man") else 1], text)
        trans = gender.startswith("trans ")
        group = "" if ethnicity == "none" else ethnicity + " "
        shown = _OVER.get(self.options.get("over", ""), "90+") if age == "90+" else age
        years = 90 if age == "90+" else int(age)
        for mark, value in {
            "{T}": "transgender " if trans else "",
            "{TT}": "TRANSGENDER " if trans else "",
            "{(T)}": " (transgender)" if trans else "",
            "{eth}": group,
            "{ETH}": group.upper(),
            "{RACE}": "unknown" if ethnicity == "none" else ethnicity,
            "{age}": shown,
            "{words}": "over ninety" if age == "90+" else in_words(years),
            "{decade}": "teens" if years < 20 else f"{years // 10}0s",
        }.items():
            text = text.replace(mark, value)
        return re.sub(r"\{([aA])\}(\s+)(\S+)", _article, text)


def _article(match: re.Match[str]) -> str:
    word = match[3]
    vowel = word[0].lower() in "aeo" or re.match(r"8|1[18](?!\d)", word)
    return match[1] + ("n" if vowel else "") + match[2] + word


def read_sentences() -> list[Sentence]:
    """All of the file."""
    rows = []
    for line in (Path(__file__).parent / "sentences.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            template, _, options = line.partition("\t")
            rows.append(Sentence(template, dict(item.split("=") for item in options.split())))
    return rows
