"""Published throughputs with and without mixed precision, each with its source: what others have measured.

They were collected from the sources named; none was measured here. A ratio is the quotient of the two throughputs.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = {
    "DLE": "NVIDIA/DeepLearningExamples on GitHub, commit 729963d (2024-04-04)",
    "DLPerf": "Oneflow-Inc/DLPerf on GitHub, commit c89430b",
    "Lambda": "lambdal/deeplearning-benchmark on GitHub, commit aa5addb (2025-12-17), PyTorch in NVIDIA's containers",
    "JAX-Toolbox": "NVIDIA/JAX-Toolbox on GitHub, README of the rosetta ViT, in the git history",
    "timm": "huggingface/pytorch-image-models on GitHub, results csv for PyTorch 1.12",
}
"""Short names of the sources to what they are."""
LAMBDA_TF32 = "the source says fp32; its containers have TF32 on by default, so that is what it is taken for"
BATCHES_DIFFER = "the batch grew together with the change of precision"


@dataclass(frozen=True)
class Published:
    """One published pair of throughputs.

    Attributes:
        model: name in the zoo where there is one, else a name of its own.
        what: the work, its framework and settings.
        device: the GPU; one of them unless `what` says otherwise.
        baseline: "float32" (no TF32: a GPU before Ampere), "tf32", or "" where no baseline was published.
        before: throughput under the baseline.
        policy: "mixed_float16" or "mixed_bfloat16".
        after: throughput under the policy.
        unit: of both, a second.
        batches: samples a step before and after, None where the source does not say.
        source: a key of `SOURCES`.
        stated: the ratio as the source, or its reader, states it, where it does.
        note: what has to be known to compare.
    """

    model: str
    what: str
    device: str
    baseline: str
    before: float | None
    policy: str
    after: float
    unit: str
    source: str
    stated: float | None = None
    batches: tuple[int, int] | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as fast: the quotient; None without a baseline."""
        return None if self.before is None else self.after / self.before


def _rows(model: str, what: str, unit: str, source: str, *rows: tuple, note: str = "") -> list[Published]:
    """Rows of (device, before, after, stated ratio[, batches]): float32 before Ampere, TF32 from there on."""
    made = []
    for device, before, after, stated, *batches in rows:
        baseline = "float32" if device.startswith("V100") else "tf32"
        said = note if baseline == "tf32" or note != LAMBDA_TF32 else ""
        if batches and batches[0][0] != batches[0][1]:
            said = "; ".join(part for part in (said, BATCHES_DIFFER) if part)
        common = (model, what, device, baseline, before, "mixed_float16", after, unit, source, stated)
        made.append(Published(*common, batches[0] if batches else None, said))
    return made


PUBLISHED: tuple[Published, ...] = (
    *_rows("resnet50", "v1.5, TensorFlow 1, XLA", "pictures", "DLE", ("V100 16 GB", 412, 1270, 3.08, (128, 256))),
    *_rows("resnet50", "v1.5, TensorFlow 1, XLA", "pictures", "DLE", ("A100 40 GB", 909, 2375, 2.60, (256, 256))),
    *_rows("resnet50", "v1.5, TensorFlow 1, no XLA", "pictures", "DLPerf", ("V100 16 GB", 362, 945, 2.61, (128, 224))),
    *_rows(
        *("resnet50", "v1.5, TensorFlow 1, XLA with float16 only", "pictures", "DLPerf"),
        ("V100 16 GB", 362, 1199, 3.31, (128, 224)),
        note="XLA comes with the precision: 1.27 of the ratio is XLA alone (1199 / 945)",
    ),
    *_rows("resnet50", "TensorFlow 2.3, no XLA", "pictures", "DLPerf", ("V100 16 GB", 322, 938, 2.92, (128, 128))),
    *_rows("resnet50", "TensorFlow 2.3, no XLA", "pictures", "DLPerf", ("V100 16 GB", 322, 1075, 3.34, (128, 256))),
    *_rows(
        *("resnet50", "MXNet 22.10", "pictures", "DLE", ("A100 80 GB", 1056, 3411, 3.23, (512, 512))),
        note="the README prints a ratio of 2.18, which is not the quotient of its numbers",
    ),
    *_rows(
        *("resnet50", "PyTorch", "pictures", "Lambda", ("V100", 369, 833, 2.26), ("A100 80 GB", 1066, 1582, 1.48)),
        *(("H100 SXM", 1893, 2791, 1.47), ("RTX 3090", 513, 905, 1.76)),
        note=LAMBDA_TF32,
    ),
    *_rows(
        *("bert_large", "TensorFlow 2, pre-training, 128 tokens, XLA", "sequences", "DLE"),
        *(("V100 32 GB", 50.0, 206.5, 4.13), ("A100 80 GB", 283, 485.6, 1.72)),
    ),
    *_rows(
        *("bert_large", "TensorFlow 1, SQuAD", "sequences", "DLE", ("V100 16 GB", 7.36, 29.7, 4.04)),
        *(("V100 32 GB", 10.42, 51.0, 4.90), ("A100 40 GB", 61.4, 102.3, 1.67)),
    ),
    *_rows(
        *("bert_large", "TensorFlow 2, SQuAD", "sequences", "DLE"),
        *(("V100 16 GB", 9.85, 39.1, 3.97), ("A100 80 GB", 43.9, 134.2, 3.06)),
    ),
    *_rows(
        *("bert_base", "TensorFlow 1 (NVIDIA's), 128 tokens, no XLA", "sequences", "DLPerf"),
        ("V100 16 GB", 112.8, 183, 1.63),
    ),
    *_rows(
        *("bert_base", "TensorFlow 1 (NVIDIA's), 128 tokens, XLA", "sequences", "DLPerf"),
        *(("V100 16 GB", 112.8, 423, 3.75, (48, 64)), ("V100 16 GB", 112.8, 468, 4.15, (48, 96))),
    ),
    *_rows(
        *("bert_base", "TensorFlow's own, 128 tokens, no XLA", "sequences", "DLPerf"),
        ("V100 16 GB", 113, 229, 2.02, (64, 64)),
    ),
    *_rows(
        *("bert_base", "TensorFlow's own, 128 tokens, XLA on both sides", "sequences", "DLPerf"),
        ("V100 16 GB", 138, 415, 3.00, (64, 64)),
    ),
    *_rows(
        *("bert_base", "PyTorch, SQuAD", "sequences", "Lambda", ("V100", 42, 189, 4.5), ("A100 80 GB", 239, 443, 1.85)),
        *(("H100 SXM", 433, 867, 2.00), ("RTX 3090", 85, 172, 2.02)),
        note=LAMBDA_TF32,
    ),
    *_rows(
        *("retinanet_r50", "SSD with ResNet-50 and FPN, TensorFlow 1", "pictures", "DLE"),
        *(("V100 16 GB", 85, 128, 1.51, (32, 32)), ("A100 40 GB", 123, 181, 1.46, (32, 32))),
    ),
    *_rows(
        *("retinanet_r50", "SSD, PyTorch", "pictures", "Lambda", ("V100", 104, 229, 2.20)),
        *(("A100 80 GB", 304, 458, 1.51), ("H100 SXM", 585, 865, 1.48)),
        note=LAMBDA_TF32,
    ),
    *_rows(
        *("ncf", "TensorFlow 1, batch of 1 M", "million pairs", "DLE"),
        *(("V100 32 GB", 9.73, 15.2, 1.56), ("A100 40 GB", 20.2, 22.8, 1.13)),
    ),
    *_rows(
        *("ncf", "PyTorch", "million pairs", "Lambda", ("V100", 9.9, 23.5, 2.36), ("A100 80 GB", 28.7, 30.8, 1.07)),
        ("H100 SXM", 66.6, 70.2, 1.05),
        note=LAMBDA_TF32,
    ),
    *_rows(
        *("gnmt", "TensorFlow 1", "thousand tokens", "DLE"),
        *(("V100 16 GB", 14.1, 23.0, 1.63), ("A100 40 GB", 31.1, 29.9, 0.96)),
    ),
    *_rows(
        *("gnmt", "PyTorch", "thousand tokens", "Lambda", ("V100", 24.1, 79, 3.28), ("A100 80 GB", 130, 244, 1.87)),
        ("H100 SXM", 249, 477, 1.92),
        note=LAMBDA_TF32,
    ),
    *_rows(
        *("efficientnet_b0", "TensorFlow 2", "pictures", "DLE"),
        *(("V100 32 GB", 752, 868, 1.15), ("A100 80 GB", 1209, 3454, 2.85)),
    ),
    *_rows("maskrcnn", "TensorFlow 2", "pictures", "DLE", ("A100 80 GB", 18.4, 28.6, 1.55, (4, 4))),
    *(
        Published(
            *("vit_b16", "JAX, for each of 8 GPUs", device, "", None, "mixed_bfloat16", after, "pictures"),
            source="JAX-Toolbox",
            note="no baseline was published",
        )
        for device, after in (("A100 80 GB", 7200 / 8), ("H100 SXM", 11670 / 8))
    ),
    *(
        Published(
            *(model, "PyTorch AMP", "RTX 3090", "", None, "mixed_float16", after, "pictures", "timm"),
            batches=(batch, batch),
            note="no baseline was published",
        )
        for model, after, batch in (("vit_b16", 391, 192), ("vit_l16", 117, 64))
    ),
)
"""Every published pair."""

MULTIPLY_ADDS = {"resnet50": 4.09e9, "vit_b16": 17.56e9, "vit_l16": 61.55e9}
"""Multiply-adds of one forward pass for a picture of 224 x 224; forward and backward take six operations for each."""
PEAKS = {"V100": 125e12, "A100": 312e12, "H100": 989e12, "RTX 3090": 71e12}
"""Dense 16-bit tensor-core operations a second with sums in float32, as the makers state them."""


def utilisation(published: Published) -> float | None:
    """The share of the device's stated 16-bit peak that a published throughput is; None where that is not known."""
    peak = next((rate for name, rate in PEAKS.items() if published.device.startswith(name)), None)
    if peak is None or published.model not in MULTIPLY_ADDS:
        return None
    return 6 * MULTIPLY_ADDS[published.model] * published.after / peak
