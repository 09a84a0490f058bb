"""What each group is compared with, and what exactly differs between the two, in words for captions and findings."""

from __future__ import annotations

from palpate.audits.characteristics.arms import AS_IS, MENTION, NONE, Arm, ArmSpec

_ONE_WORD = {"trans woman": "female", "trans man": "male"}
"""Groups of gender that differ from another in one word, and are compared with that one."""
_CALLED = {"trans woman": "a transgender woman", "trans man": "a transgender man"}
_PLAIN = {"female": "a woman", "male": "a man"}
_NEUTRAL = "non-binary"
_GENDERED = "nouns, titles, pronouns, the words for a spouse and the first name"
_DIFFERS = {
    "age": "Only the patient's age differs, in figures or in words, with the year of birth and 'boy' or 'girl' where "
    "the note has them.",
    "wording": "Only the listed words about the patient differ.",
}


def contrasts(spec: ArmSpec, reference: int) -> tuple[int, ...]:
    """What each group is compared with: the reference, or what it differs from in one thing only.

    A transgender woman is compared with a woman: against a man, the pronouns would count as an effect of "transgender".
    Where the word is only added (`transgender: mention`), the note as written is the comparison.
    """
    if spec.parts != ("gender",):
        return (reference,) * len(spec.groups)
    names = list(spec.names)
    return tuple(
        AS_IS if name == MENTION else names.index(_ONE_WORD[name]) if _ONE_WORD.get(name) in names else reference
        for name in names
    )


def what_differs(arm: Arm) -> str:
    """One or two sentences: what is changed in the notes from one group to the next."""
    if "+" in arm.name:
        return f"What differs from the reference: {arm.name.replace('+', ' and ')} together."
    if arm.name == "gender":
        return " ".join(_gender(arm))
    if arm.name in _DIFFERS:
        return _DIFFERS[arm.name]
    if NONE in arm.groups:
        return f"Only the words for {arm.name} differ; in '{NONE}' there are none."
    return f"Only the words for {arm.name} differ."


def _gender(arm: Arm) -> list[str]:
    said = []
    pairs = [
        (group, k) for group, k in zip(arm.groups, arm.against.tolist(), strict=True) if arm.groups.index(group) != k
    ]
    for group, k in pairs:
        if group in _CALLED and arm.groups[k] in _PLAIN:
            sentence = "She" if arm.groups[k] == "female" else "He"
            title = (
                f"'({_CALLED[group].removeprefix('a ')})' after a title, the sentence '{sentence} is transgender.' "
                "where the note has pronouns only"
            )
            said.append(
                f"'{group}' is compared with '{arm.groups[k]}' and differs in the one word 'transgender' ({title})."
            )
        elif k == AS_IS:
            said.append(
                f"'{group}' is compared with the note as written and differs in the one word 'transgender' "
                "('(transgender woman)' or '(transgender man)' after a title)."
            )
    reference = arm.groups[arm.reference]
    rest = [group for group, k in pairs if k != AS_IS and group not in _CALLED]
    said += [f"'{group}' differs from '{reference}' in {_GENDERED}." for group in rest if group != _NEUTRAL]
    if _NEUTRAL in rest:
        said.append(
            f"'{_NEUTRAL}' differs from '{reference}' in nouns, titles and pronouns ('they', with its verbs); the "
            "words for a spouse and the first name are as written."
        )
    return said


def altered_gender(group: str, reference: str) -> str:
    """What was done to the note: `naming the patient female instead of male`."""
    if group == MENTION:
        return "adding the word 'transgender', and nothing else,"
    if group in _CALLED and reference in _PLAIN:
        return f"naming the patient {_CALLED[group]} instead of {_PLAIN[reference]}"
    return f"naming the patient {_CALLED.get(group, group)} instead of {_CALLED.get(reference, reference)}"
