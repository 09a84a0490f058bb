"""The front door from Python: a frame and models in memory go in, an object that shows itself comes out.

    result = palpate.audit(frame, labels=["readmitted"], text="note", patient="subject_id", models={"lr": pipeline})
    result                                   # in a notebook: scorecard, findings, charts
    result["performance"].to_pandas()

The engine is the command line's: the same job, the same run directory, the same numbers.
"""
