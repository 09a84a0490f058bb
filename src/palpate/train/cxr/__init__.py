"""`palpate train cxr`: a DenseNet-121 or ResNet-50 that reads chest X-rays (context paper, Appendix A).

The paper follows Seyyed-Kalantari et al. (2020), with batches of 256: images of 256 pixels, normalised as for ImageNet,
mirrored and rotated by up to 15 degrees; binary cross-entropy over the labels, unweighted; Adam from 5e-4, halved after
three epochs without a lower validation loss, stopped after ten, at most 64 epochs. Those are the defaults. That work
starts from ImageNet's weights: give them as `checkpoint`; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palpate.cases.cohort import Cohort
from palpate.models.devices import check_device
from palpate.models.networks import require_torch, torch_threads
from palpate.models.networks.vision.layers import load_start, make_network
from palpate.models.options import digest
from palpate.train.cxr.images import ImageCases, ImageSplit, split_images, stored_pixels, usable
from palpate.train.cxr.options import CxrTrainOptions
from palpate.train.notes import class_weights, example_weights
from palpate.train.options import FitTask, Fitted, Kind, TrainingData, TrainStep


def _check(options: CxrTrainOptions, labels: Sequence[str]) -> Mapping[str, Any]:
    """The libraries are there and the checkpoint fits; the result depends on its bytes."""
    require_torch("training a model that reads images", "monai", "PIL")
    check_device(options)
    if options.checkpoint is None:
        return {}
    load_start(make_network(options.shape, len(labels), seed=0), options.shape, options.checkpoint)
    return {"checkpoint": digest("checkpoint", {}, [options.checkpoint])}


def _read(cohort: Cohort, options: CxrTrainOptions) -> TrainingData:
    kept, left_out = usable(cohort, options.missing_images)
    return TrainingData(kept, split_images(kept, left_out))


def _fit(split: ImageSplit, options: CxrTrainOptions, task: FitTask) -> Fitted:
    from palpate.models.networks.vision import write_vision
    from palpate.train.cxr.training import CxrTraining

    shape, seed = options.shape, task.seed or 0
    with torch_threads(options.threads):
        network = make_network(shape, len(split.labels), seed=seed)
        head = options.checkpoint is not None and load_start(network, shape, options.checkpoint)
        training = CxrTraining(
            network,
            _images(split.train, "train", split, options, task),
            _images(split.validation, "validation", split, options, task),
            options,
            seed=seed,
            home=task.scratch,
            progress=task.progress,
        )
        best, history = training.run()
        task.progress(TrainStep("validation", 0, 1))
        p = training.probabilities()
    facts = {
        "epochs": best["epoch"],
        "validation_loss": round(best["validation_loss"], 6),
        "n_weights": sum(int(weight.numel()) for weight in network.parameters()),
        "head": "the checkpoint's" if head else "new",
        "cases left out because their image is missing": split.left_out,
        "tried": history,
    }

    def save(folder: Path, **manifest: Any) -> Path:
        from palpate.models.adapters.palpate import save_network

        return save_network(folder, "vision", lambda home: write_vision(home, network, shape), **manifest)

    return Fitted(p, save, facts)


def _images(cases: ImageCases, name: str, split: ImageSplit, options: CxrTrainOptions, task: FitTask) -> Any:
    from palpate.train.cxr.training import TrainingImages

    store = task.scratch.parent / "pixels" / f"{name}.npy"
    pixels = stored_pixels(cases, options.shape.format, store, task.progress, f"{name} images")
    weights = class_weights(split.train.y, options.class_weight)
    return TrainingImages(pixels, cases.y, example_weights(cases.y, weights))


KIND = Kind(
    what="A convolutional network that reads the middle square of a chest X-ray, in grey.",
    options=CxrTrainOptions,
    fit=_fit,
    check=_check,
    read=_read,
    packages=("torch", "monai", "pillow"),
    limits=(
        "It reads one image at a time, and does not know which view it is.",
        "It may use marks, tubes and borders instead of the finding: audit it with `context`.",
    ),
    keep="The weights may memorise training images: store the folder where the images may be stored.",
)
