"""Published numbers: every ratio is the quotient of its throughputs, and every number has a source."""

from __future__ import annotations

import pytest

from ampcourse.bench import PUBLISHED, compare
from ampcourse.bench.published import BATCHES_DIFFER, PEAKS, SOURCES, utilisation


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: f"{one.model} {one.device} {one.source}")
def test_each_pair_is_consistent(one) -> None:
    assert one.source in SOURCES
    assert one.after > 0
    assert any(one.device.startswith(name) for name in PEAKS)
    assert (one.before is None) == (one.ratio is None) == (one.baseline == "")
    if one.ratio is not None:
        assert one.baseline == ("float32" if one.device.startswith("V100") else "tf32")
        assert one.ratio == one.after / one.before
        assert one.stated == pytest.approx(one.ratio, rel=0.01)  # both were rounded
    else:
        assert one.note
    if one.batches and one.batches[0] != one.batches[1]:
        assert BATCHES_DIFFER in one.note


def test_the_ratio_is_what_it_is_said_to_be_for_the_well_known_ones() -> None:
    found = {(one.model, one.device, one.source, one.what): one.ratio for one in PUBLISHED}
    assert found["resnet50", "A100 80 GB", "Lambda", "PyTorch"] == pytest.approx(1.48, abs=0.005)
    assert found["resnet50", "H100 SXM", "Lambda", "PyTorch"] == pytest.approx(1.47, abs=0.005)
    assert (
        found["gnmt", "A100 40 GB", "DLE", "TensorFlow 1"]
        < 1
        < found["ncf", "A100 40 GB", "DLE", "TensorFlow 1, batch of 1 M"]
    )


def test_utilisation_is_what_follows_from_throughput_work_and_peak() -> None:
    used = {(one.model, one.device, one.source, one.what): utilisation(one) for one in PUBLISHED}
    assert used["resnet50", "A100 80 GB", "DLE", "MXNet 22.10"] == pytest.approx(0.27, abs=0.005)
    assert used["resnet50", "H100 SXM", "Lambda", "PyTorch"] == pytest.approx(0.07, abs=0.005)
    assert used["vit_b16", "A100 80 GB", "JAX-Toolbox", "JAX, for each of 8 GPUs"] == pytest.approx(0.30, abs=0.005)
    assert used["vit_b16", "H100 SXM", "JAX-Toolbox", "JAX, for each of 8 GPUs"] == pytest.approx(0.16, abs=0.005)
    assert used["vit_l16", "RTX 3090", "timm", "PyTorch AMP"] == pytest.approx(0.61, abs=0.005)
    assert all(share is None or 0 < share < 1 for share in used.values())


def test_all_that_is_shown_has_its_source_spelt_out() -> None:
    page = compare()
    for name, what in SOURCES.items():
        assert f"- {name}: {what}" in page
    rows = [line for line in page.splitlines() if line.startswith("| ") and " --- " not in line]
    assert len(rows) == len(PUBLISHED) + 1
    assert len({row.count(" | ") for row in rows}) == 1


def test_measured_ratios_stand_beside_the_published_ones_of_the_same_models(measure) -> None:
    report = measure(xla=(True,))
    page = compare(report)
    assert "Nothing published was found for: toy." in page
    assert "Published:" not in page
    (row,) = (line for line in page.splitlines() if "mixed_bfloat16, XLA" in line)
    assert "| toy (small) |" in row and "| float32 | 1.00 (1.00 to 1.00) |" in row and "a made-up processor" in row
    assert "DLPerf" in compare(report, ["bert_base"])


def test_what_is_published_under_a_name_of_the_zoo_is_a_model_of_the_zoo() -> None:
    from ampcourse.models.zoo import names

    elsewhere = {"bert_large", "efficientnet_b0", "maskrcnn"}
    assert {one.model for one in PUBLISHED} - elsewhere <= set(names())
