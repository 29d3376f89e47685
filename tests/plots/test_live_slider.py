"""The slider in a real JupyterLab: keys move it, the picture and its words follow, and a reload does not break it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from ampcourse.plots.words import percent

pytestmark = pytest.mark.browser
CELL = "from ampcourse import plots\nplots.gradient_explorer([3e-8, 1e-7, 1e-6], scales=[1.0, 2.0, 4.0, 8.0])"
WORDS = ".jp-OutputArea [role=status]"


@pytest.fixture
def lab(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "slider.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={tmp_path}"]
    home = {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | home)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api")
            yield f"http://127.0.0.1:{port}/lab/tree/slider.ipynb?reset"
        finally:
            server.terminate()
            server.wait(30)


def _wait_for(address):
    for _ in range(120):
        try:
            urllib.request.urlopen(address)
            return
        except OSError:
            time.sleep(0.5)
    pytest.fail("JupyterLab did not start within a minute")


@pytest.fixture
def page():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(
        (
            path
            for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
            if Path(path).exists()
        ),
        None,
    )
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        except sync_api.Error:
            pytest.skip("Chromium is not installed")
        yield browser.new_page(viewport={"width": 1280, "height": 1000})
        browser.close()


def test_keys_move_the_slider_and_picture_and_words_follow(lab, page):
    page.set_default_timeout(90_000)
    page.goto(lab)
    page.wait_for_selector("text=| Idle")
    page.click(".jp-Notebook .jp-Cell .cm-content")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(f"{WORDS} >> text=not scaled")
    before = page.get_attribute(".jp-OutputArea img", "src")
    page.focus(".noUi-handle")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".jp-OutputArea img[alt*='loss scale 4']")
    assert page.get_attribute(".jp-OutputArea img", "src") != before
    assert page.get_attribute(".jp-OutputArea img", "alt") == page.inner_text(WORDS)
    page.click(".jp-Notebook .jp-Cell .cm-content")
    with page.expect_response(lambda answer: answer.request.method == "PUT" and "slider.ipynb" in answer.url):
        page.keyboard.press("Control+s")
    page.goto(lab)  # as when the learner comes back to a notebook whose kernel still runs
    page.focus(".noUi-handle")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".jp-OutputArea img[alt*='loss scale 8']")
    assert f"{percent(0.0)} flushed" in page.inner_text(WORDS)
