"""Exercise 5, the capstone: a whole float32 program, taken to mixed precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.fact_check import train_program

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
CLIP, DECAY, RATE = 0.5, 0.01, 0.1


def _inputs(rng: np.random.Generator) -> Inputs:
    inputs, width, classes = int(rng.integers(3, 6)), int(rng.integers(11, 15)), int(rng.integers(3, 5))
    shapes = [(inputs, width), (width,), (width, classes), (classes,)]
    weights = [rng.normal(size=shape).astype("float32") for shape in shapes]
    weights[2] *= np.float32(0.2)  # so that the first loss scale fits: a step that is skipped says nothing
    surroundings = [str(name) for name in rng.permutation(POLICIES)]

    def batch(size: float = 1.0) -> tuple:
        x = rng.normal(size=(16, inputs)) * size
        return x.astype("float32"), rng.integers(classes, size=16)

    def case(policy: str, batches: list[tuple], number: int, start: list = weights) -> tuple:
        return policy, (inputs, width, classes), start, batches, surroundings[number]

    zeros = batch()
    zeros[0][: int(rng.integers(2, 9))] = 0  # and no biases: all hidden units of these rows are 0
    unbiased = [weights[0], np.zeros_like(weights[1]), *weights[2:]]
    weak = [*weights[:2], weights[2] * np.float32(2.0**-16), weights[3]]  # little comes back to the first layer
    overflow = batch()
    overflow[0][0, 0] = np.inf
    several = [batch() for _ in range(2)]
    several.insert(int(rng.integers(0, 2)), overflow)
    sixteen = [str(name) for name in rng.permutation(POLICIES[1:])]
    return {
        "ordinary batches, 16 bits": case(sixteen[0], [batch(), batch()], 0),
        "ordinary batches, float32": case("float32", [batch(), batch()], 1),
        "large activations": case("mixed_float16", [batch(1000.0), batch(1000.0)], 2),
        "rows of zeros": case("mixed_float16", [zeros, batch()], 0, unbiased),
        "small gradients": case("mixed_float16", [batch(), batch()], 1, weak),
        "a batch that overflows": case("mixed_float16", several, 2),
    }


def _normalise(x: Any) -> Any:
    """The root mean square, as the float32 program has it: it takes the dtype of what comes in."""
    import tensorflow as tf

    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + 1e-8)


def _in_float32(x: Any) -> Any:
    import tensorflow as tf

    return tf.cast(_normalise(tf.cast(x, tf.float32)), x.dtype)


def _only_the_mean(x: Any) -> Any:
    import tensorflow as tf

    squares = tf.reduce_mean(tf.square(tf.cast(x, tf.float32)), axis=-1, keepdims=True)
    return x * tf.cast(tf.math.rsqrt(squares + 1e-8), x.dtype)


def _layers(
    policy: str, inputs: int, width: int, classes: int, norm: Callable, head: str | None, last: str = "softmax"
) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(width, "relu", dtype=policy),
            keras.layers.Lambda(norm, dtype=policy),
            keras.layers.Dense(classes, last, dtype=head or policy),
        ]
    )


def _loss(model: Any, x: Any, y: Any, logits: bool = False) -> tuple[Any, Any]:
    """Cross-entropy and weight decay."""
    import tensorflow as tf

    p = model(x, training=True)
    p = tf.nn.softmax(p) if logits else p
    entropy = -tf.reduce_mean(tf.cast(tf.math.log(tf.gather(p, y, batch_dims=1)), tf.float32))
    return entropy, DECAY * sum(tf.nn.l2_loss(w.value) for w in model.trainable_variables)


def _clipped(optimizer: Any, gradients: list) -> list:
    """Unscaled, clipped, and scaled again, as `apply` wants them."""
    import tensorflow as tf

    scale = getattr(optimizer, "dynamic_scale", None)
    scale = 1.0 if scale is None else tf.identity(scale.value)
    gradients, _ = tf.clip_by_global_norm([g / scale for g in gradients], CLIP)
    return [g * scale for g in gradients]


def _too_early(optimizer: Any, gradients: list) -> list:
    import tensorflow as tf

    return tf.clip_by_global_norm(gradients, CLIP)[0]


def _program(
    head: str | None = "float32",
    norm: Callable = _in_float32,
    wraps: Callable[[str], bool] = lambda policy: policy == "mixed_float16",
    scales: bool = True,
    clips: Callable = _clipped,
    late: Callable[[Any], Any] = lambda penalty: 0.0,
    early: Callable[[Any], Any] = lambda penalty: penalty,
    policy_is: str = "",
    logits: bool = False,
    returns: Callable[[Any, Any, Any], Any] = lambda entropy, penalty, scaled: entropy + penalty,
    inner: Callable[[Any], Any] = lambda optimizers: optimizers.SGD(RATE),
) -> Callable[..., tuple]:
    """The right program, with each of its parts open to a mistake."""

    def mixed_program(policy: str, inputs: int, width: int, classes: int) -> tuple:
        import keras
        import tensorflow as tf

        policy = policy_is or policy
        model = _layers(policy, inputs, width, classes, norm, head, "linear" if logits else "softmax")
        optimizer = inner(keras.optimizers)
        if wraps(policy):
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                entropy, penalty = _loss(model, x, y, logits)
                loss = entropy + early(penalty)
                scaled = (optimizer.scale_loss(loss) if scales else loss) + late(penalty)
            gradients = tape.gradient(scaled, model.trainable_variables)
            optimizer.apply(clips(optimizer, gradients), model.trainable_variables)
            return returns(entropy, penalty, scaled)

        return model, step

    return mixed_program


def _by_the_optimizer(policy: str, inputs: int, width: int, classes: int) -> tuple:
    """The inner optimizer clips, after unscaling; the loss takes logits; always wrapped."""
    import keras
    import tensorflow as tf

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((inputs,)),
            layers.Dense(width, "relu", dtype=policy),
            layers.Lambda(_normalise, dtype="float32"),
            layers.Dense(classes, dtype=policy),
            layers.Softmax(dtype="float32"),
        ]
    )
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(RATE, global_clipnorm=CLIP))
    optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = sum(_loss(model, x, y))
            scaled = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return loss

    return model, tf.function(step)


def _one_by_one(policy: str, inputs: int, width: int, classes: int) -> tuple:
    """The global policy is set for the layers; only mixed_float16 is treated apart."""
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy(policy)
    model = _layers(policy, inputs, width, classes, _in_float32, "float32")
    optimizer = keras.optimizers.SGD(RATE, global_clipnorm=CLIP)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**14)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            entropy, penalty = _loss(model, x, y)
            scaled = optimizer.scale_loss(entropy + penalty)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
        return entropy + penalty

    return [model, step]


mixed_program = Exercise(
    id="fact_check.mixed_program",
    inputs=_inputs,
    observer=train_program,
    right=_program(),
    points={
        "ordinary batches, 16 bits": 2,
        "ordinary batches, float32": 1,
        "large activations": 1,
        "rows of zeros": 1,
        "small gradients": 1,
        "a batch that overflows": 1,
    },
    also_right=(_by_the_optimizer, _one_by_one),
    mistakes=(
        Mistake(
            _program(policy_is="float32"),
            "Your layers compute in float32 whatever the policy is. Give it to them: dtype=policy, or set it before "
            "they are made.",
        ),
        Mistake(
            _program(head=None),
            "Your softmax runs in 16 bits. Give the last layer, or its activation, dtype='float32'.",
        ),
        Mistake(
            _program(norm=_normalise),
            "Your normalisation squares in the compute dtype: in float16 that overflows from 256 on, and 1e-8 is 0, "
            "so that a row of zeros is divided by 0. Cast to float32 inside, and back.",
        ),
        Mistake(
            _program(scales=False),
            "Your optimizer divides by the loss scale, but the loss was never multiplied by it: call scale_loss inside "
            "the tape.",
        ),
        Mistake(
            _program(wraps=lambda policy: False),
            "Under mixed_float16 nothing scales your loss: small gradients are lost, and one overflow ruins the "
            "weights. Wrap the optimizer in a LossScaleOptimizer.",
        ),
        Mistake(
            _program(clips=_too_early),
            "Your updates are 32,768 times too short: either you clip the scaled gradients, or you unscale them, clip, "
            "and let `apply` divide once more. Let the inner optimizer clip (global_clipnorm): it sees unscaled ones.",
        ),
        Mistake(
            _program(clips=lambda optimizer, gradients: gradients),
            "You no longer clip. Mixed precision must not change what the program does.",
        ),
        Mistake(
            _program(early=lambda penalty: 0.0, late=lambda penalty: penalty),
            "The weight decay joins the loss after scaling, and is then divided by the scale with the rest: it "
            "vanishes. Add it before scale_loss.",
        ),
        Mistake(
            _program(early=lambda penalty: 0.0),
            "The weight decay is gone from your gradients. Mixed precision must not change what the program does.",
        ),
        Mistake(
            _program(returns=lambda entropy, penalty, scaled: scaled),
            "You return the scaled loss. What is reported should be the true one.",
        ),
        Mistake(
            _program(returns=lambda entropy, penalty, scaled: entropy),
            "You return the cross-entropy alone. The float32 program returns the loss with the decay in it.",
        ),
        Mistake(
            _program(early=lambda penalty: 2 * penalty),
            "The weight decay acts twice: once in the loss and once more elsewhere.",
        ),
        Mistake(
            _program(policy_is="mixed_float16"),
            "You take mixed_float16 whatever the policy is.",
        ),
        Mistake(
            _program(norm=_only_the_mean),
            "Your mean of squares is in float32, but the product with it is not: on the way back x is multiplied by "
            "its gradient and summed in float16, which overflows. Compute the whole normalisation in float32.",
        ),
        Mistake(
            _program(
                inner=lambda optimizers: optimizers.SGD(RATE, clipnorm=CLIP),
                clips=lambda optimizer, gradients: gradients,
            ),
            "You clip each variable by itself (clipnorm). The float32 program clips all of them by their common norm: "
            "global_clipnorm.",
        ),
        Mistake(
            _program(inner=lambda optimizers: optimizers.SGD(RATE / 10)),
            "Your learning rate is another one: the float32 program has 0.1.",
        ),
        Mistake(
            _program(inner=lambda optimizers: optimizers.Adam(RATE)),
            "You train with Adam. The float32 program trains with SGD, and mixed precision must not change what it "
            "does.",
        ),
        Mistake(
            _program(logits=True),
            "Your model returns logits. The float32 program's model returns probabilities, and others may rely on "
            "that.",
        ),
    ),
    hints=(
        "Go through the program line by line and ask of each: in which dtype does it run, and what is the largest and "
        "the smallest number there?",
        "There are four places: the dtypes of the layers, the inside of the normalisation, the last layer, and the "
        "step with its optimizer.",
        "keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, global_clipnorm=0.5)) clips after unscaling.",
    ),
    atol=0.03,
    trains=True,
    insight="Four places in thirty lines. An audit finds the first three by itself, and a test against float32 finds "
    "the rest: you need both.",
)
