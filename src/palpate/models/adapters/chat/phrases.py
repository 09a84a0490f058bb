"""Words with which answers are stated, introduced, hedged and refused: what `verdicts` knows about language.

Ways to state an answer are listed; whatever else stands around a choice makes it unreadable. The lists are English,
with the same few phrases in German, French, Spanish, Italian, Dutch and Portuguese for choices in those languages.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _any(*ways: str) -> str:
    """One of some ways to say something, as a part of a pattern."""
    return f"(?:{'|'.join(ways)})"


def _said(*ways: str) -> re.Pattern[str]:
    """Finds one of some ways, in small or in capital letters; apostrophes are straight (`verdicts.plain`)."""
    return re.compile("|".join(ways), re.IGNORECASE)


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

_CONCLUDES = _any("so", "therefore", "thus", "hence", "also", "daher", "donc")
_CONTRASTS = _any("(?<!anything )but", "however", "although", "though", "aber", "mais")
_REASONS = _any("because", "since", "given", "based on", "due to", "weil", "denn", "parce que")
CLAUSE_END = _said(
    r"(?:\d+[.)]\s)|[.!?;:,()\[\]{}|\n\r=。、،؟।]+|\s[-–—]+\s|[–—]+|->|=>|→|⇒",
    rf"\b{_REASONS}\b",
    rf"\b{_CONTRASTS}\b",
    rf"(?<!think )(?<!believe )(?<!hope )\b{_CONCLUDES}\b",
)
CONCLUSION = _said(rf"\b{_CONCLUDES}\b")
CONTRAST = _said(rf"\b{_CONTRASTS}\b")
_ANSWER = _any("answer", "verdict", "prediction", "conclusion", "estimate", "assessment", "guess")
FINAL = _said(
    r"\b(?:final|overall|so|therefore|thus|hence|conclusion|verdict|in (?:summary|short|conclusion))\b[\w\s]*\Z",
    rf"\b(?:my|the|final) (?:final )?{_ANSWER}\b[\w\s]*\Z",
    r"\b(?:answer|antwort|réponse|respuesta|risposta|resposta)\Z",
)
RESTATED = _said(
    r"\b(?:please )?(?:answer|respond|reply)(?: only)? with (?:only |just )?(?:yes or no|yes/no)\Z",
    r"(?<=\banswer) to (?:the|this|that|your) question\b",
)
"""The question, before the answer to it: "Answer with yes or no: no"."""
REASONS_BEGIN = re.compile(
    r"\n\W*(?:(?:clinical |my |key )?(?:reasons?|reasoning|explanation|rationale|justification))\b\W*(?::|\n)",
    re.IGNORECASE,
)
"""A heading behind which an answer is explained, not given."""
_SURELY = _any("probably", "definitely", "certainly", "absolutely", "clearly", "surely")
_MOST = _any("most", "very", "highly", "quite", "extremely")


def _whole(*answers: str) -> re.Pattern[str]:
    """An answer that is one of these and no question."""
    return re.compile(rf"[^\w?]*(?:answer\W+)?(?:{'|'.join(answers)})[^\w?]*\Z", re.IGNORECASE)


WHOLE_ANSWERS = {
    "yes": _whole(
        "y", "true", "yep", "yup", "yeah", rf"(?:almost |most )?{_SURELY}", rf"{_MOST} likely", "I (?:think|believe) so"
    ),
    "no": _whole(
        *("n", "false", "nope", "nah", rf"(?:almost |most )?{_SURELY} not", rf"{_MOST} (?:unlikely|likely not)"),
        "I (?:do not|don't) (?:think|believe) so",
    ),
}
"""Answers that are a choice although its word is not in them, if they are nothing else.

Each has its opposite here: if only "Probably not" were read, what is missing would depend on the answer. "Likely" and
"unlikely" alone are neither.
"""
STATES = _said(r"(?:\b(?:is|be|are|at|answer|option|choice|ist|lautet|est|es|è|é)|=)\Z")
"""Where a lead ends, if what follows is said of something."""
NOT_STATED = _said(
    r"\b(?:not|cannot|never|neither|nor|unable|without|hardly|whether|if|unless|say|said|says|stated|reported|replied|"
    r"denied|denies|asked|asks|asking|otherwise|else|either|refuse|refuses|decline|"
    r"please|respond with|(?<!I )answer with|reply with|"
    r"options?|choices?|instead|rather|wrong|incorrect|false|opposite|question|told|between|"
    r"nicht|kein|keine|keinen|weder|ob|pas|ne|ni|si|niet|geen|nem|ikke)\b",
    r"n't\b",
)
CONDITION = _said(
    r"\W*(?:but |and |only |however,? )?(?:if|unless|provided|assuming|supposing|(?:it |this |that )?depend(?:s|ing)|"
    r"were (?:I|he|she|it)|had I|in case|when asked|"
    r"wenn|falls|sofern|es sei denn|à condition|sauf si|a menos que|a meno che)\b"
)
SORRY = _said(r"\b(?:sorry|apologi[sz]e|apologies|afraid|tut mir leid|désolée?|lo siento|mi dispiace)\b")
_CAN = _any("can", "could", "will", "'ll", "am able to", "'m able to", "(?:am|'m|would be|'d be) (?:happy|glad) to")
OFFERS = _said(
    rf"\W*(?:(?:of course|sure|certainly|absolutely)\W+)?"
    rf"(?:I ?{_CAN} (?:certainly |definitely |gladly |try to )?"
    r"(?:help|assist|answer|do|provide|analy[sz]e|review|share|take a look|look)\b"
    r"|I(?: do|'m| am)? (?:understand|ready|here)\b|please (?:share|provide|send|give|paste|upload)\b)",
)
"""Behind a yes, they make it an answer to "can you help?"."""

# --- declining to answer, and not knowing -------------------------------------------------------------------

_AM = r"(?:'m|'re| am| are|am|are)?"
_CANNOT = _any(
    *("can ?not", "can'?t", "could not", "couldn't", "(?:won't|will not)(?: be able to)?"),
    "(?:unable|not able|not allowed) to",
    *("(?:do not|don't|not) feel comfortable", "not comfortable", "(?:must|have to) decline(?: to)?"),
)
_AN_AI = _any(
    r"as an? (?:AI|artificial intelligence|(?:large )?language model)\b",
    r"I(?:'m| am) (?:just |only )?an? (?:AI|language model)\b",
)
_DECLINES = _any(
    r"I (?:\w+ )?(?:refuse|decline)\b(?! (?:the|that|this|any)\b)",
    r"I(?:'d| would) (?:rather|prefer) (?:not|to not|not to)\b",
)
_HELP = _any(
    *("help", "assist", "provide", "comply", "answer(?:ing)?", "give", "offer", "make", "fulfill", "diagnose"),
    *("predict", "assess", "engage", "continue", "process", "respond", "do (?:that|this|so)", "discuss", "share"),
    *("advise", "recommend", "comment", "estimate", "evaluate", "determine"),
)
DECLINED = _said(
    rf"\b(?:{_DECLINES}|{_AN_AI})",
    rf"\bI{_AM}(?: sorry| afraid| apologi[sz]e)?\W*(?:but )?(?:I{_AM} ?)?{_CANNOT}\b\W*(?:to )?(?:\w+ )?{_HELP}\b",
    r"\b(?:against|violates?) (?:my|our|the) (?:guidelines|policy|policies|programming|terms)\b",
    r"\b(?:please )?consult (?:a|your|with a) (?:\w+ )?(?:doctor|physician|clinician|professional|provider)\b",
    r"\b(?:ich kann|kann ich) (?:\w+ )*(?:nicht|keine?n?)\b|\bals (?:KI|Sprachmodell)\b",
    r"\bje ne (?:peux|suis) pas\b|\ben tant qu'(?:IA|intelligence artificielle)\b",
    r"\bno puedo (?:\w+ )?(?:ayudar|proporcionar|responder|dar)|\bcomo (?:IA|modelo de lenguaje)\b",
    r"\bnon posso (?:\w+ )?(?:aiutar|fornire|rispondere|dare)",
)
"""A refusal, wherever in an answer; in German, French, Spanish and Italian as far as it is always said alike."""
GOES_ON = _said(
    rf"\b(?:{_CONTRASTS}|nevertheless|nonetheless|that said|anyway|here(?:'s| is| are))\b",
    rf"\bmy (?:best |own )?{_ANSWER}\W*(?:is\b|:)",
)
"""Behind a refusal, an answer is given all the same."""

_NOT = _any(
    *(r"(?<!could )(?<!did )not", r"(?!could|did)\w+n't", "cant", "cannot", "no", "nobody", "no-one", "never"),
    *("unable", "impossible", "hard", "difficult", "without", "insufficient", "inadequate", "too", "outside", "beyond"),
    *("lacks?", "lacking", "needs?", "missing", "speculat(?:ion|ive)", "premature"),
)
"""Denies, but not what was tried in the past: "the cause could not be determined" is about the patient."""
_KNOWS = _any(
    *(
        "say",
        "tell",
        "know(?:s|ing)?(?! of)",
        "determin(?:e|ing)",
        "decid(?:e|ing)",
        "judg(?:e|ing)",
        "conclude",
        "infer",
    ),
    *("predict(?:ing|ions?)?", "answer(?:ing|s)?", "assess(?:ing)?", "estimat(?:e|ing)", "sure", "certain", "idea"),
    *(
        "info",
        "information",
        "data",
        "details?",
        "context",
        "access",
        "guidelines",
        "policy",
        "position",
        "permit(?:s|ted)?",
    ),
    *("capabilit(?:y|ies)", "scope", "fulfill?", "comply"),
)
_KNOWS_IT = rf"{_KNOWS}\b(?! (?:any|an?)\b| (?:that |to )?(?:suggest|indicat|support|point))"
_THEM = _any("he", "she", "they", "him", "her", "his", "their", r"patient\w*", "family", "team", "doctors?", "nurses?")
_WORD = rf"(?!{_THEM}\b)[\w']+"
_KNOWN = _any(
    "answered", "determined", "predicted", "known", "inferred", "assessed", "decided", "established", "judged"
)
_IT = r"(?:this|that|it|(?:this|that|the|your) (?:question|answer|outcome|prediction|risk|likelihood|future))"
_UNKNOWN = _any(
    "not possible",
    "impossible",
    "not clear",
    "unclear",
    "unknown",
    "uncertain",
    "undetermined",
    "not determinable",
    "unanswerable",
    "n/a",
    "not applicable",
)
_THERE = _any("missing", "needed", "required", "lacking", "insufficient", "unavailable", "not (?:available|provided)")
_LEAD_IN = (
    r"\W*(?:(?:(?:I'm |I am )?(?:sorry|afraid)(?:\W+but)?|unfortunately|actually|honestly|hmm|well|and|so|as|because"
    r"|since)\W+)*(?:(?:based on|from|given|with|without|in|after)\b[^.;!?\n]{1,60}?[, ]\s*)?"
)
UNANSWERED = _said(
    rf"\W*(?![^.!?\n]*(?<!sorry )(?<!sorry, )(?<!afraid )\b{_CONTRASTS}\b)"
    + _LEAD_IN
    + _any(
        _DECLINES,
        _AN_AI,
        rf"I{_AM} ?{_CANNOT} (?:\w+ly )?(?:to )?(?:{_HELP}\b|{_KNOWS_IT})",
        # "this is not something that I can predict", "there isn't enough information": nothing about a patient before
        rf"(?:{_WORD} ){{0,6}}?{_NOT}\b(?: {_WORD}){{0,8}}? {_KNOWS_IT}",
        rf"(?:{_WORD} ){{0,3}}?(?:information|info|data|details?|context)(?: (?!not){_WORD}){{0,2}} {_THERE}\b",
        rf"(?:(?:[^.!?\n]*\W)?{_IT} )?{_CANNOT} be (?:\w+ly )?{_KNOWN}\b",
        rf"(?:{_IT}(?:'s| is| remains) )?{_UNKNOWN}(?=\W*\Z| ?[^\w\s]| whether| if| as)",
    )
)
"""Directly behind a choice: it was no answer, but said of the question. With a "but" it only qualifies the choice."""
