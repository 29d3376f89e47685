"""What formgrader shows an instructor of a student's notebook: read it, grade it, and nothing of it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import door_attacks as attacks
import nbformat
import pytest
from door_markup import Seen
from door_server import TOKEN, Formgrader, chromium

MINI = "07_mini"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, make_mini: Any, nbgrader_in: Any) -> Any:
    """The mini course, with an "autograded" notebook and files that attack whoever opens them."""
    root = make_mini(tmp_path_factory.mktemp("formgrader") / "kurs für alle" / "notebooks")
    nbgrader = nbgrader_in(root)
    nbgrader("generate_assignment", MINI)
    folder = root / "autograded" / "mallory" / MINI
    folder.mkdir(parents=True)
    notebook = attacks.notebook()
    notebook.cells += nbformat.read(root / "source" / MINI / f"{MINI}.ipynb", as_version=4).cells
    nbformat.write(notebook, folder / f"{MINI}.ipynb")
    (folder / "page.html").write_text(f"<script>{attacks.RUN}</script>")
    (folder / "timestamp.txt").write_text("2026-01-01 10:00:00 UTC")
    (folder / "submission_secret.txt").write_text("secret")
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as book:
        book.add_student("mallory")
        book.add_submission(MINI, "mallory")
    return nbgrader


@pytest.fixture(scope="module")
def formgrader(course: Any, patience: float) -> Iterator[Formgrader]:
    with Formgrader(course.root, course.environment, patience) as server:
        yield server


@pytest.fixture(scope="module")
def address(formgrader: Formgrader) -> str:
    return formgrader.pages(MINI, MINI)["mallory"]


def test_the_page_of_a_submission_holds_nothing_that_runs(formgrader: Formgrader, address: str) -> None:
    status, page, headers = formgrader.get(address)
    assert status == 200
    notebook = page[page.index('id="notebook"') : page.index('class="help"')]
    # nbgrader's own fields for points and comments
    own = [found for found in Seen(notebook).running() if found not in ("input", "button", "textarea")]
    assert [f for f in own if not f.startswith("input style=") and not f.startswith("span style=")] == []
    assert "script-src 'self'" in headers["Content-Security-Policy"]


def test_a_students_page_is_served_so_that_it_cannot_run(formgrader: Formgrader, address: str) -> None:
    status, text, headers = formgrader.get(f"{address}page.html")
    assert status == 200
    assert attacks.RUN in text
    assert "sandbox;" in headers["Content-Security-Policy"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        except sync_api.Error:
            pytest.skip("Chromium is not installed")
        yield browser
        browser.close()


@pytest.fixture
def asked(browser: Any) -> Iterator[Any]:
    """A page, and every address that it asked for."""
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    yield page, asked
    page.close()


@pytest.mark.browser
def test_nothing_of_a_students_runs_in_formgrader_and_points_can_be_given(
    formgrader: Formgrader, address: str, asked: Any, patience: float
) -> None:
    page, addresses = asked
    page.set_default_timeout(60_000 * patience)
    page.goto(f"{formgrader.address}/login?token={TOKEN}")
    page.goto(f"{formgrader.address}{address}", wait_until="networkidle")
    _touch_everything(page)
    assert page.evaluate("window.ran") is None
    assert [url for url in addresses if not url.startswith(("data:", formgrader.address))] == []
    with page.expect_response(lambda answer: answer.request.method == "PUT"):
        page.fill("#why", "1.5")
        page.keyboard.press("Tab")
    grades = json.loads(formgrader.get(f"/formgrader/api/grades?submission_id={address.split('/')[3]}")[1])
    assert {grade["name"]: grade["manual_score"] for grade in grades}["why"] == 1.5


@pytest.mark.browser
def test_nothing_of_a_students_runs_when_their_file_is_opened(formgrader: Formgrader, address: str, asked: Any) -> None:
    page, _ = asked
    page.goto(f"{formgrader.address}{address}page.html?token={TOKEN}", wait_until="networkidle")
    assert page.evaluate("window.ran") is None


@pytest.mark.browser
def test_nothing_runs_or_is_loaded_in_feedback(course: Any, asked: Any) -> None:
    course("generate_feedback", MINI)
    path = course.root / "feedback" / "mallory" / MINI / f"{MINI}.html"
    page, addresses = asked
    page.goto(Path(path).as_uri(), wait_until="networkidle")
    _touch_everything(page)
    assert page.evaluate("window.ran") is None
    assert [url for url in addresses if not url.startswith("data:")] == [Path(path).as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def _touch_everything(page: Any) -> None:
    """What a reader's mouse and keyboard may set off."""
    page.evaluate(
        """() => document.querySelectorAll('#notebook *, main *').forEach(element => {
            for (const kind of ['mouseover', 'focus', 'click', 'toggle', 'load', 'error'])
                element.dispatchEvent(new Event(kind, {bubbles: false, cancelable: true}));
        })"""
    )
    page.wait_for_timeout(200)
