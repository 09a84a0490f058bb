"""Reading chest X-rays and training on them: what the kept pixels and the small decoding save.

    python benchmarks/cxr_training.py [--images 40] [--side 2544] [--network densenet121]

An X-ray of MIMIC-CXR-JPG is about 2,544 x 3,056 pixels. The plain way decodes and scales each of them whole, in every
epoch; palpate decodes a fraction of it, once. Prints processor time, because others may use the machine. It ends with
an error if an epoch's reading is not at least ten times cheaper, or if the pixels differ by more than noise.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from palpate.models.networks.vision.images import Pixels
from palpate.train.cxr.images import ImageCases, stored_pixels
from palpate.train.cxr.options import CxrTrainOptions

AT_LEAST = 10.0


def write_images(folder: Path, n: int, side: int) -> list[str]:
    """Smooth shapes with the grain of a detector."""
    rng = np.random.default_rng(0)
    files = []
    rows, columns = np.mgrid[0 : side * 6 // 5, 0:side].astype(np.float32)
    for k in range(n):
        shape = 120 + 70 * np.sin(rows / (90 + k)) * np.cos(columns / (120 + k))
        grain = rng.normal(0, 6, shape.shape).astype(np.float32)
        file = folder / f"{k}.jpg"
        Image.fromarray(np.clip(shape + grain, 0, 255).astype(np.uint8)).save(file, quality=95)
        files.append(str(file))
    return files


def read_plainly(file: str, size: int) -> Pixels:
    """Decode it whole, scale the shorter side, cut out the middle."""
    with Image.open(file) as image:
        grey = image.convert("L")
        scale = size / min(grey.size)
        small = grey.resize((round(grey.width * scale), round(grey.height * scale)), Image.Resampling.BILINEAR)
        left, top = (small.width - size) // 2, (small.height - size) // 2
        return np.asarray(small.crop((left, top, left + size, top + size)))


def time_steps(options: CxrTrainOptions, pixels: Pixels, folder: Path) -> float:
    """Processor seconds per image of one epoch of training."""
    from palpate.models.networks.vision.layers import make_network
    from palpate.train.cxr.training import CxrTraining, TrainingImages

    y = (np.arange(len(pixels))[:, None] % 2).astype(np.uint8)
    examples = TrainingImages(pixels, y, np.ones(y.shape))
    network = make_network(options.shape, 1, seed=0)
    training = CxrTraining(
        network,
        examples,
        examples._replace(pixels=pixels[:2], y=y[:2], weight=np.ones((2, 1))),
        options,
        seed=0,
        home=folder,
        progress=lambda _: None,
    )
    start = time.process_time()
    training.run()
    return (time.process_time() - start) / len(pixels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--side", type=int, default=2544)
    parser.add_argument("--network", default="densenet121")
    given = parser.parse_args()
    options = CxrTrainOptions(network=given.network, device="cpu", epochs=1, batch_size=8, images_at_once=8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_images(folder, given.images, given.side)
        start = time.process_time()
        plain = np.stack([read_plainly(file, options.image_size) for file in files])
        t_plain = (time.process_time() - start) / len(files)
        cases = ImageCases(files, files, np.zeros((len(files), 1), dtype=np.uint8), np.arange(len(files)))
        start = time.process_time()
        stored_pixels(cases, options.shape.format, folder / "pixels.npy", lambda _: None, "images")
        t_first = (time.process_time() - start) / len(files)
        start = time.process_time()
        kept = np.array(stored_pixels(cases, options.shape.format, folder / "pixels.npy", lambda _: None, "images"))
        t_later = (time.process_time() - start) / len(files)
        difference = float(np.abs(kept.astype(int) - plain).mean())
        print(f"reading an X-ray of {given.side} pixels, {len(files)} of them, processor time:")
        print(f"  plainly, in every epoch      {1e3 * t_plain:8.2f} ms")
        print(f"  palpate, once                {1e3 * t_first:8.2f} ms   {t_plain / t_first:6.1f} times")
        print(f"  palpate, in later epochs     {1e3 * t_later:8.2f} ms   {t_plain / t_later:6.0f} times")
        print(f"  mean difference of pixels    {difference:8.2f} of 255")
        t_step = time_steps(options, kept[:16], folder)
        share = t_plain / (t_plain + t_step)
        print(f"a training step of {given.network} at {options.image_size} pixels: {1e3 * t_step:.0f} ms per image")
        print(f"  read plainly, {100 * share:.0f}% of an epoch's processor time would be reading")
        epoch = t_plain / (t_first / 10 + t_later)
        print(f"reading over ten epochs is {epoch:.0f} times cheaper; wanted: {AT_LEAST:g}")
        if epoch < AT_LEAST or difference > 2:
            raise SystemExit("too slow, or not the same images")


if __name__ == "__main__":
    main()
