"""palpate: how a clinical prediction model behaves, beyond its AUROC."""

__version__ = "0.1.0"
