"""Draw the README's picture, `docs/images/gradients.png`, and the words that go with it.

A small network learns clothes from the pictures that travel with the course; the gradients are those of its layers'
outputs, because that is what float16 has to hold on the way back through a network. Run it with `make images`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ampcourse import data, plots

ROOT = Path(__file__).resolve().parent.parent
STEPS, BATCH, SCALE = 60, 512, 2.0**15


def gradients_of_a_real_model(steps: int = STEPS) -> list[np.ndarray]:
    """Train for some steps in float32; returns the loss's gradients by every layer's output, for the last batch."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(width, activation="relu") for width in (256, 128, 64)] + [keras.layers.Dense(10)]
    optimizer, loss = keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    (pictures, labels), _ = data.load()
    order = np.random.default_rng(0).permutation(len(pictures))
    for step in range(steps):
        batch = np.take(order, range(step * BATCH, (step + 1) * BATCH), mode="wrap")
        outputs = [tf.reshape(pictures[batch], (BATCH, -1))]
        with tf.GradientTape() as tape:
            for layer in layers:
                outputs.append(layer(outputs[-1]))
            value = loss(labels[batch], outputs[-1])
        weights = [weight for layer in layers for weight in layer.trainable_weights]
        found = tape.gradient(value, weights + outputs[1:])
        optimizer.apply(found[: len(weights)], weights)
    return [gradient.numpy() for gradient in found[len(weights) :]]


def main() -> None:
    """Write the picture and its words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    picture = plots.gradient_explorer(gradients_of_a_real_model(), "float16", [1.0, SCALE])
    picture.save(folder / "gradients.png")
    (folder / "gradients.txt").write_text(picture.alt + "\n", "utf-8")
    print(picture.alt)


if __name__ == "__main__":
    main()
