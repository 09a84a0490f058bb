"""How the number and the unit of an age are written: "63", "___", "[**Age over 90 **]"; "year old", "y/o", "yo"."""

from __future__ import annotations

MASK = r"\[\*\*\s?Age over 90\s*\*\*\]|(?<!_)_{3}(?!_)"
NUMBER = rf"(?P<number>{MASK}|\d{{1,3}}\+?)"
WHAT_KIND = (
    r"(?:(?-i:[A-Z][a-z]+(?:-[a-z]+)?)|obese|overweight|underweight|normal[\s-]weight|homeless|stably|housed|(?:un)?insured|privately|"
    r"transgender|trans|non-binary|white|black|elderly|young|pleasant|healthy|married|single|retired|(?:right|left)-handed)"
)
"""What may stand between an age and its noun where the age lacks "old": "54 yr Hispanic man"."""
UNIT = (
    r"(?:[\s-]*(?:(?:years?|yrs?\.?)[\s-]*old\b|(?:years?|yrs?)[\s-]+of[\s-]+age\b|y(?:rs?|ears?)?\s?[/.-]\s?o\b\.?|y\s?o\b"
    r"|y\s?/?\s?o(?=(?-i:[RL]H(?:AA|[WBHC])?[MF])\b)|yo(?=[MF]?\b)|y(?=[\s-]+old\b|\s*[MF]\b(?!/)|\s+(?:[a-z-]+\s+){1,2}[MF]\b(?!/))"
    r"|(?:yo|yrs?|y)(?=\s?/\s?(?-i:[MF])(?![\w'’/])|\s?\((?-i:[MF])\)|(?-i:[MF])\b)"
    r"|(?:years?|yrs?|y)(?=[\s,]+(?:old|male|female|man|woman|gentleman|lady|[MF](?!/))\b)"
    rf"|(?:years?|yrs?)(?=(?:\s+{WHAT_KIND}){{1,3}}\s+(?:male|female|man|woman|gentleman|lady|person|(?-i:[MF])(?!/))\b)))"
)
