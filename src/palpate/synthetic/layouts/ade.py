"""Posts about medicines in the layouts of SMM4H 2017 (one tsv) and 2021 (tweets, classes and spans)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TextIO

from palpate.files import open_named_text, read_resource
from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.notes import ConditionSpan, Draft, Grammar, mistype
from palpate.synthetic.patients.conditions import words_of
from palpate.synthetic.plants import SITES, Site

PREVALENCE = {"smm4h-2017": 0.0872, "smm4h-2021": 0.0739}
SPLITS = {"train": 0.7, "validation": 0.1, "test": 0.2}
KINDS = {"negated": 0.05, "before": 0.03, "benefit_only": 0.12, "indication": 0.3, "chatter": 0.45, "hearsay": 0.05}
_TYPO = 0.15
_MARK = "ade"


class Post(NamedTuple):
    """One post; `spans` are the adverse effects in it."""

    post_id: int
    user_id: int
    kind: str
    text: str
    spans: Sequence[ConditionSpan]


@lru_cache(maxsize=1)
def _grammar() -> Grammar:
    table: Mapping[str, str | list[str]] = read_resource("palpate.synthetic.layouts", "ade.yaml")
    return Grammar({key: words_of(value) if isinstance(value, str) else tuple(value) for key, value in table.items()})


def write_posts(folder: Path, *, n_posts: int, seed: int, site: Site) -> None:
    """Half of the posts in each layout, and `kinds.tsv` with the reason for each label."""
    with ExitStack() as stack:
        kinds = stack.enter_context(_open(folder / "kinds.tsv"))
        kinds.write("tweet_id\tkind\n")
        old = {split: stack.enter_context(_open(folder / "smm4h-2017" / f"{split}.tsv")) for split in SPLITS}
        names = ("tweets", "class", "spans_norms")
        new = {
            (split, name): stack.enter_context(_open(folder / "smm4h-2021" / split / f"{name}.tsv"))
            for split in SPLITS
            for name in names
        }
        for number in range(n_posts):
            dice = Dice(stream(seed, SITES[site], 3, number))
            layout = "smm4h-2021" if number % 2 else "smm4h-2017"
            post, split = _post(number, dice, PREVALENCE[layout]), dice.weighted(SPLITS)
            kinds.write(f"{post.post_id}\t{post.kind}\n")
            if layout == "smm4h-2017":
                old[split].write(f"{post.post_id}\t{post.user_id}\t{int(post.kind == _MARK)}\t{post.text}\n")
                continue
            new[split, "tweets"].write(f"{post.post_id}\t{post.text}\n")
            new[split, "class"].write(f"{post.post_id}\t{'ADE' if post.kind == _MARK else 'NoADE'}\n")
            for span in post.spans:
                row = (post.post_id, "ADE", span.begin, span.end, post.text[span.begin : span.end])
                new[split, "spans_norms"].write("\t".join(map(str, row)) + "\n")


def _post(number: int, dice: Dice, prevalence: float) -> Post:
    kind = _MARK if dice.chance(prevalence) else dice.weighted(KINDS)
    draft = Draft(dice)
    phrase = _grammar().one(kind, dice, {})
    draft.add(mistype(phrase, dice) if dice.chance(_TYPO) else phrase, condition=_MARK)
    post_id = 300_000_000_000_000_000 + number * 1_000_003 + dice.integer(0, 1_000_000)
    return Post(post_id, dice.integer(10**6, 10**9), kind, draft.raw(), draft.spans)


def _open(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_named_text(path)
