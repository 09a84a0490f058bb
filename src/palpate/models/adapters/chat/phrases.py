"""Words with which answers are stated, introduced, hedged and refused: what `verdicts` knows about language.

Ways to state an answer are listed; whatever else stands around a choice makes it unreadable. The lists are English,
with the same few phrases in German, French, Spanish, Italian, Dutch and Portuguese for choices in those languages.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OF_AN_ANSWER = _words(
    """
    i i'd i'm i'll i've would will say answer answering choose pick select vote go with lean leaning towards toward to
    predict think believe feel judge conclude estimate guess respond reply expect opt for have inclined confident
    confidently certain sure fairly quite pretty very rather strongly reasonably am is are be being would be it's that's
    it this that here there a an the my our final best short overall correct right likely most more probable answer
    prediction verdict conclusion assessment judgement judgment opinion guess estimate response result decision
    option choice outcome classification label so therefore thus hence then and but overall ultimately finally
    accordingly consequently probably possibly likely definitely certainly clearly almost surely absolutely simply
    just still all in summary short conclusion from me case there's good chance note evidence data information suggests
    suggest indicates indicate points point both ok okay well
    safest question your one word high low moderate medium confidence on balance
    die antwort ist lautet meine mein ich würde sage sagen meiner meinung nach also daher wahrscheinlich eher vermutlich
    la réponse est ma je dirais dis donc probablement plutôt
    respuesta es mi yo diría digo por lo tanto probablemente la
    risposta è mia direi quindi probabilmente il
    het antwoord is ik zou zeggen dus waarschijnlijk
    a resposta é minha eu diria portanto provavelmente
    """
)
"""Around a choice, these leave it said. No denial, no modal but "would" and "will", no other speaker than "I"."""

OF_WHOM = _words("patient patient's him her man woman")
"""Behind a choice, too: "yes for this patient". Before one, they may be who says it."""
OPENS_AN_ANSWER = _words("yes no ja nein oui nee sim não")
"""Choices that an answer begins with, and that are said of nothing: "Yes the patient will return"."""

BEFORE_A_SENTENCE = _words(
    "the this that there these those he she it they i we you because since as based patient his her its their"
)
VERBS = _words("is was would will could may might can cannot can't isn't wouldn't won't seems should must has does")
"""Behind a choice, they say something about it: "No would be wrong"."""
BEHIND_A_NO = _words("from to here then overall sagen zeggen in for")
JOINS = _words("and or but if unless no not nor yes und oder et ou y o e maybe perhaps wenn falls si when")

CLAUSE_END = re.compile(
    r"(?:\d+[.)]\s)|[.!?;:,()\[\]{}|\n\r=。、،؟।]+|\s[-–—]+\s|[–—]+|->|=>|→|⇒"
    r"|\b(?:because|since|given|based on|due to|(?<!anything )but|however|although|weil|denn|aber|parce que|mais)\b"
    r"|(?<!think )(?<!believe )(?<!hope )\b(?:so|therefore|thus|hence|also|daher|donc)\b",
    re.IGNORECASE,
)
CONCLUSION = re.compile(r"\b(?:so|therefore|thus|hence|also|daher|donc)\b", re.IGNORECASE)
FINAL = re.compile(
    r"\b(?:final|overall|so|therefore|thus|hence|conclusion|verdict|in (?:summary|short|conclusion))\b[\w\s]*\Z"
    r"|\b(?:my|the|final) (?:final )?(?:answer|verdict|prediction|conclusion)\b[\w\s]*\Z|\banswer\Z|\bantwort\Z"
    r"|\bréponse\Z|\brespuesta\Z|\brisposta\Z|\bresposta\Z",
    re.IGNORECASE,
)
STATES = re.compile(r"(?:\b(?:is|be|are|at|answer|option|choice|ist|lautet|est|es|è|é)|=)\Z", re.IGNORECASE)
"""Where a lead ends, if what follows is said of something."""
NOT_STATED = re.compile(
    r"\b(?:not|cannot|never|neither|nor|unable|without|hardly|whether|if|unless|say|said|says|stated|reported|replied|"
    r"denied|denies|asked|asks|asking|either|refuse|refuses|decline|please|respond with|(?<!I )answer with|reply with|"
    r"options?|choices?|instead|rather|wrong|incorrect|false|opposite|question|told|between|"
    r"nicht|kein|keine|keinen|weder|ob|pas|ne|ni|si|niet|geen|nem|ikke)\b|n['’]t\b",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"\W*(?:but |and |only |however,? )?(?:if|unless|provided|assuming|supposing|depending|were (?:I|he|she|it)|had I|"
    r"in case|when asked|wenn|falls|sofern|es sei denn|à condition|sauf si|a menos que|a meno che)\b",
    re.IGNORECASE,
)
SORRY = re.compile(
    r"\b(?:sorry|apologi[sz]e|apologies|afraid|tut mir leid|désolée?|lo siento|mi dispiace)\b", re.IGNORECASE
)
_CAN = r"(?:can|could|will|['’]ll|am able to|['’]m able to|(?:am|['’]m|would be|['’]d be) (?:happy|glad) to)"
OFFERS = re.compile(
    rf"\W*(?:(?:of course|sure|certainly|absolutely)\W+)?"
    rf"(?:I ?{_CAN} (?:certainly |definitely |gladly |try to )?"
    r"(?:help|assist|answer|do|provide|analy[sz]e|review|share|take a look|look)\b"
    r"|I(?: do|['’]m| am)? (?:understand|ready|here)\b|please (?:share|provide|send|give|paste|upload)\b)",
    re.IGNORECASE,
)
"""Behind a yes, they make it an answer to "can you help?"."""
REFUSES = re.compile(
    r"\W*(?:(?:I['’]m |I am )?(?:sorry|afraid|unfortunately)\W+(?:but )?)*"
    r"I(?:['’]m| am)? ?(?:can ?not|can['’]?t|won['’]t|will not|unable to|not able to|not allowed to|refuse to"
    r"|must decline)"
    r"(?: \w+ly)? ?(?:to )?(?:answer|help|assist|comply|do (?:that|this|so)|provide|give|respond|say|tell|predict)\b"
    r"|\W*(?:I(?:['’]m| am) (?:not comfortable|(?:just |only )?an? AI)|as an? (?:AI|(?:large )?language model))\b",
    re.IGNORECASE,
)
"""Directly behind a choice, they make it a refusal; after a "but" they only qualify it."""
CONTRAST = re.compile(r"\b(?:but|however|although|aber|mais)\b", re.IGNORECASE)
