"""English words that carry grammar and little else; never chosen as target words unless asked for.

Written for this project. Negations ("no", "not", "without", "denies") and words of time ("before", "after",
"since") are left out on purpose: in a note they carry meaning, and a model's reaction to them is of interest.
"""

from __future__ import annotations

_LISTED = """
a an the
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves one ones
this that these those such same other others another each every either both all any some
who whom whose which what when where why how whatever whichever whoever
and or but nor so yet if then than though although because while whereas whether as
of in on at by for from to into onto upon with within about above below over under between among through
throughout during toward towards via per against across along around out up down off
am is are was were be been being have has had having do does did done doing
can could may might must shall should will would ought
isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't can't couldn't won't wouldn't shouldn't
here there also too very quite rather just only even still again ever more most much many few less least own
however therefore thus hence otherwise else etc
"""

STOP_WORDS = frozenset(_LISTED.split())
