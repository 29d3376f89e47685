"""While grading, pictures are not drawn: their words are enough, and a class is graded sooner."""

from ampcourse import plots


def test_a_picture_is_words_only_while_grading(monkeypatch):
    picture = plots.bit_layout(["float16"])
    monkeypatch.setenv("AMPCOURSE_PROFILE", "grade")
    assert picture._repr_mimebundle_() == ({"text/plain": picture.alt}, {})
    monkeypatch.delenv("AMPCOURSE_PROFILE")
    assert "image/png" in picture._repr_mimebundle_()[0]
