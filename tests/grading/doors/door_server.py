"""A real Jupyter server with formgrader, started on a course."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

TOKEN = "a-token-for-tests"


class Formgrader:
    """Ask formgrader as its own pages do. Use as a context manager."""

    def __init__(self, root: Path, environment: dict[str, str], patience: float) -> None:
        self.root, self.environment, self.patience = root, environment, patience
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = root.parent / "server.log"

    def __enter__(self) -> Formgrader:
        options = [
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={TOKEN}",
            "--ServerApp.open_browser=False",
            "--ServerApp.allow_root=True",
            f"--ServerApp.root_dir={self.root}",
            "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}",
        ]
        with self.log.open("w") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "jupyter_server", *options],
                cwd=self.root,
                env=self.environment | {"JUPYTER_PREFER_ENV_PATH": "1"},
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 60 * self.patience
        while not self._answers():
            if self.server.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise RuntimeError(self.log.read_text()[-3000:])
            time.sleep(0.1)
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.terminate()
        try:
            self.server.wait(20)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()

    def _answers(self) -> bool:
        try:
            return self.get("/formgrader/api/status")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers."""
        return self._ask(urllib.request.Request(self.address + path))

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """What the REST API answers, as JSON."""
        request = urllib.request.Request(self.address + path, method=method, data=json.dumps(body or {}).encode())
        status, text, _ = self._ask(request)
        assert status == 200, text
        return json.loads(text)

    def _ask(self, request: urllib.request.Request) -> tuple[int, str, dict[str, str]]:
        request.add_header("Authorization", f"token {TOKEN}")
        try:
            with urllib.request.urlopen(request, timeout=300 * self.patience) as answer:
                return answer.status, answer.read().decode("utf-8", "replace"), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace"), dict(error.headers)

    def autograde(self, lesson: str, student: str) -> dict[str, Any]:
        return self.send("POST", f"/formgrader/api/submission/{lesson}/{quote(student)}/autograde")

    def pages(self, lesson: str, notebook: str) -> dict[str, str]:
        """The addresses of the pages on which submissions are graded by hand, by student."""
        found = json.loads(self.get(f"/formgrader/api/submitted_notebooks/{lesson}/{notebook}")[1])
        return {entry["student"]: f"/formgrader/submissions/{entry['id']}/" for entry in found}


def chromium() -> str | None:
    """Where Chromium is, if it is not playwright's own."""
    places = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
    return next((path for path in places if Path(path).exists()), None)
