"""One file per scheme: each has a `load` that turns `scheme:target` into a model.

    sklearn:FILE            a fitted scikit-learn pipeline, saved with skops
    palpate:DIR             a model that `palpate train` wrote
    hf:DIR                  a transformers checkpoint in a local folder
    onnx:FILE               an ONNX graph
    python:MODULE:FUNCTION  a Python function of a list of texts
    predictions:FILE        probabilities that were computed elsewhere
    http://HOST/PATH        a model behind an endpoint (https too); with `api: chat`, a language model

`remote` is what `http` and `chat` share. The schemes are registered as entry points in pyproject.toml.
"""
