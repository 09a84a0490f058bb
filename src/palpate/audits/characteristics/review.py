"""What clinicians said about a random sample of the alterations, beside the findings that rest on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palpate.audits.characteristics.answers import asked
from palpate.audits.characteristics.arms import Arm, ArmSpec
from palpate.audits.kit.wording import counted, listed, percent
from palpate.errors import ConfigError
from palpate.perturb.characteristics.review import AlterationReview
from palpate.results import Finding
from palpate.stats import wilson_interval

_MANY_WRONG = 0.05
"""A larger share of wrong alterations limits what the findings mean."""


def error_rate(review: AlterationReview) -> tuple[float, float, float]:
    """The share that is wrong among those that are right or wrong, with Wilson's 95% interval."""
    n = review.right + review.wrong
    low, high = wilson_interval(review.wrong / n, n)
    return review.wrong / n, float(low), float(high)


def check_reviews(reviews: Sequence[AlterationReview], specs: Sequence[ArmSpec]) -> None:
    """Refuse a review of alterations that this audit does not make."""
    for review in reviews:
        spec = next((spec for spec in specs if set(spec.parts) == set(review.to)), None)
        if spec is None:
            raise ConfigError(
                f"audit 'characteristics', option 'review': '{review.characteristic}' was reviewed, but is not altered",
                hint=f"add it to `alter:`, which has {', '.join(spec.name for spec in specs)}",
                at=("review",),
            )
        if tuple(review.to[part] for part in spec.parts) not in spec.groups:
            raise ConfigError(
                f"audit 'characteristics', option 'review': '{review.group}' was reviewed, but is no group here",
                hint=f"its groups are: {', '.join(spec.names[:8])}{', ...' if len(spec.names) > 8 else ''}",
                at=("review",),
            )


def review_findings(reviews: Sequence[AlterationReview], arms: Sequence[Arm]) -> list[Finding]:
    """The error rate of the alterations with its interval, for each review."""
    question = {frozenset(arm.name.split("+")): asked(arm)[0] for arm in arms}
    return [
        Finding(
            sentence=_sentence(review),
            kind="caveat" if error_rate(review)[0] > _MANY_WRONG else "fact",
            question=question[frozenset(review.to)],
        )
        for review in reviews
    ]


def reviews_provenance(reviews: Sequence[AlterationReview]) -> list[dict[str, Any]]:
    """The counts and rates, for whoever reads the run."""
    return [
        {
            "group": review.group,
            "right": review.right,
            "wrong": review.wrong,
            "unsure": review.unsure,
            "not_marked": review.unmarked,
            "error_rate": list(error_rate(review)),
            "palpate": review.palpate,
        }
        for review in reviews
    ]


def _sentence(review: AlterationReview) -> str:
    rate, low, high = error_rate(review)
    n = review.right + review.wrong
    who = f"The reviewer {review.reviewer}" if review.reviewer else "A reviewer"
    rest = [f"{k} {what}" for k, what in ((review.unsure, "unsure"), (review.unmarked, "not marked")) if k]
    left = f"; {listed(rest)}" if rest else ""
    found = f"{who} found {review.wrong} of {counted(n, 'random alteration')} to {review.group} wrong"
    many = " What is found about this characteristic may come from such errors." if rate > _MANY_WRONG else ""
    return f"{found}: {percent(rate)} (95% interval {percent(low)} to {percent(high)}{left}).{many}"
