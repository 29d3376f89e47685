"""Exercise 2: when is the global policy read, and when does `compile` wrap the optimizer?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Program = list[tuple[str, str]]
Outcome = tuple[list[str], bool]
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
HALF = "mixed_float16"


def _inputs(rng: np.random.Generator) -> Inputs:
    def pick(*names: str) -> str:
        return str(rng.choice(names or POLICIES))

    def layers(least: int = 1, most: int = 3, own: float = 0.3) -> Program:
        count = int(rng.integers(least, most + 1))
        return [("layer", pick(*POLICIES, "float16") if rng.random() < own else "") for _ in range(count)]

    def once() -> tuple:
        return ([("policy", pick(HALF, *POLICIES)), *layers(2, 4), ("model", ""), ("compile", "plain")],)

    def changed() -> tuple:
        first, then, last = pick(), pick(HALF, *POLICIES), pick()
        parts = [("policy", first), *layers(), ("policy", then), ("model", "")]
        return ([*parts, ("policy", last), ("compile", "plain")],)

    def between() -> tuple:
        policies = rng.permutation([HALF, "float32", pick("mixed_bfloat16", "float16")])
        parts = [step for p in policies for step in (("policy", str(p)), *layers(1, 2))]
        return ([*parts, ("model", ""), ("policy", pick()), ("compile", "plain")],)

    def given(kind: str, *policies: str) -> tuple:
        return ([("policy", pick(*policies)), *layers(2, 4), ("model", ""), ("compile", kind)],)

    def several(make: Callable[[], tuple]) -> tuple:
        return ([make() for _ in range(6)],)

    others = [("wrapped", *POLICIES), ("wrapped", "float32"), ("auto_scale_loss=False", HALF), ("plain", *POLICIES)]

    return {
        "one policy from the start": several(once),
        "set anew before the model": several(changed),
        "set between the layers": several(between),
        "optimizers that come wrapped, or must not be": ([given(*others[i]) for i in rng.permutation(4)],),
    }


def _rule(
    reads_late: str = "",
    decides: Callable[[str, list[str], str], bool] = lambda model, layers, now: model == HALF,
    wrapped: bool = True,
    obeys: bool = True,
    own: bool = True,
) -> Callable[[Program], Outcome]:
    """The rule, with each of its parts open to a mistake.

    Args:
        reads_late: where a layer without a dtype of its own reads the policy, if not when it is made.
        decides: from the model's policy, the layers' and the global one at compile, whether compile wraps.
        wrapped: what is said of an optimizer that was wrapped by hand.
        obeys: whether auto_scale_loss=False is obeyed.
        own: whether a layer's own dtype counts.
    """

    def what_keras_does(program: Program) -> Outcome:
        now, model, layers, scales = "float32", "float32", [], False
        for statement, argument in program:
            if statement == "policy":
                now = argument
            elif statement == "layer":
                layers.append((argument if own else "") or (now if not reads_late else ""))
            elif statement == "model":
                model = now
                layers = [x or now for x in layers] if reads_late == "model" else layers
            else:
                layers = [x or now for x in layers]
                automatic = decides(model, layers, now) and (argument == "plain" or not obeys)
                scales = wrapped if argument == "wrapped" else automatic
        return layers, scales

    return what_keras_does


def _backwards(program: Program) -> Outcome:
    """Look back from each statement to the last policy before it."""

    def policy_at(place: int) -> str:
        return next((p for s, p in reversed(program[:place]) if s == "policy"), "float32")

    layers = [own or policy_at(i) for i, (s, own) in enumerate(program) if s == "layer"]
    model = policy_at([s for s, _ in program].index("model"))
    how = program[-1][1]
    return layers, how == "wrapped" or (how == "plain" and model == HALF)


def _by_matching(program: Program) -> list:
    layers, model, now = [], "", "float32"
    for statement, argument in program:
        match statement:
            case "policy":
                now = argument
            case "layer":
                layers.append(argument or now)
            case "model":
                model = now
    wraps = {"wrapped": True, "plain": model == HALF}.get(program[-1][1], False)
    return [layers, np.bool_(wraps)]


what_keras_does = Exercise(
    id="policies.what_keras_does",
    inputs=_inputs,
    observer=each,
    right=_rule(),
    points={
        "one policy from the start": 1,
        "set anew before the model": 1,
        "set between the layers": 1,
        "optimizers that come wrapped, or must not be": 2,
    },
    also_right=(_backwards, _by_matching),
    mistakes=(
        Mistake(
            _rule(reads_late="model"),
            "Your layers get the policy that holds when the *model* is made. A layer reads it when the layer itself "
            "is made, and keeps it.",
        ),
        Mistake(
            _rule(reads_late="compile"),
            "Your layers get the policy that holds at `compile`. By then nobody reads it any more: a layer reads it "
            "when it is made.",
        ),
        Mistake(
            _rule(own=False),
            "You overlook the dtype that a layer was given for itself. It counts more than the global policy.",
        ),
        Mistake(
            _rule(decides=lambda model, layers, now: HALF in layers),
            "You let `compile` look at the layers. It does not: it looks at the model's own policy, "
            "which is the global one at the moment when the model is made.",
        ),
        Mistake(
            _rule(decides=lambda model, layers, now: now == HALF),
            "You let `compile` look at the global policy of the moment. It looks at the model's own, "
            "which was read when the model was made.",
        ),
        Mistake(
            _rule(decides=lambda model, layers, now: model.startswith("mixed_")),
            "You wrap under mixed_bfloat16 too. bfloat16 has float32's exponent range and needs no loss scaling: "
            "only mixed_float16 is wrapped.",
        ),
        Mistake(
            _rule(obeys=False),
            "auto_scale_loss=False tells `compile` to leave the optimizer alone.",
        ),
        Mistake(
            _rule(wrapped=False),
            "An optimizer that was wrapped by hand stays wrapped, under every policy.",
        ),
        Mistake(
            _rule(decides=lambda model, layers, now: True),
            "`compile` does not wrap everywhere: only where the model's own policy is mixed_float16.",
        ),
    ),
    hints=(
        "Walk through the statements and keep three things: the global policy of the moment, the list of the layers' "
        "policies, and the model's own policy.",
        "A layer's policy is its own dtype if there is one, else the global policy of that moment. The model reads "
        "the global policy too, when it is made.",
        '"wrapped" is True; "auto_scale_loss=False" is False; "plain" is True if the model\'s own policy is '
        "mixed_float16.",
    ),
    trains=True,  # it does not, but a program cut short is no program: inputs must not be made smaller
    asks_for=("ampcourse.amp.dtype_table", "ampcourse.amp.audit", "ampcourse.amp.dtypes_trace.trace"),
    insight="Set the policy first, then make layers and model, and nothing surprising happens. Layers that compute in "
    "float16 inside a float32 model train without loss scaling, and nobody tells you.",
)
