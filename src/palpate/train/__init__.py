"""`palpate train`: the reference models, each a folder that `palpate:DIR` reads back.

    tfidf-xgboost   counts, tf-idf, XGBoost (vocabulary paper, Appendix B.2)
    tfidf-logistic  counts, tf-idf, logistic regression: a second model that needs no extra
    transformer     a fine-tuned checkpoint, or a small encoder from scratch (Section 2.2, Appendix B.1)
    caml            one convolution, label-wise attention over thousands of codes (evidence paper, Table 9)
    effective-can   residual squeeze-and-excitation blocks, label-wise attention, evidence (Sections 5 and 6)
    cxr             DenseNet-121 or ResNet-50 on chest X-rays (context paper, Appendix A)

Each kind fits on the cases of the split `train` and chooses (rounds, penalty, learning rate, epochs, threshold) on
those of `validation`; cases of `test` are counted for the model card and never read.

    trained = train("tfidf-xgboost", cohort, Path("models/xgb"), {"seeds": [24, 42]})
    trained.folders                         # models/xgb/seed-24, models/xgb/seed-42

Pre-test probabilities for the context audit are trained by `palpate.train.pretest`.
"""

from palpate.train.job import KINDS, Trained, TrainedModel, kinds, options_of, train
from palpate.train.options import Option, Progress, TrainStep

__all__ = ["KINDS", "Option", "Progress", "TrainStep", "Trained", "TrainedModel", "kinds", "options_of", "train"]
