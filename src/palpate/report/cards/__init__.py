"""Cards that hospitals file: CHAI's Applied Model Card, TRIPOD+AI's checklist, HTI-1's source attributes, Markdown.

A card is a list of items. An item takes its text from two wells only: what the run measured, where every sentence
cites its row of the results, and what people wrote into a facts file. What neither has says who must write it. Nothing
is made up.

    entries   what an item is, and how wells become items
    facts     what only people know, and the facts file
    measured  sentences from a run's results, with their rows
    items     the items of each list
    formats   XML, JSON, Markdown, Word
"""
