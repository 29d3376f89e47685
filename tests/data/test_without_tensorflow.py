"""A machine that has JAX and no TensorFlow: everything but `pipeline` works there."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys

for absent in ("tensorflow", "tf_keras", "tensorflow_datasets", "keras"):
    sys.modules[absent] = None
import numpy as np
from ampcourse import data
from ampcourse.data.splits import Jpegs, Pictures, Split
from tests_jpeg import jpeg

pictures = data.pictures(limit=100)
x, y = next(iter(data.batches(pictures.train, 10, pictures=pictures, size=32, channels=3, train=True)))
assert (x.shape, y.shape) == ((10, 32, 32, 3), (10,))
files = [jpeg(40, 60), jpeg(60, 40)]
split = Split(Jpegs(np.frombuffer(b"".join(files), np.uint8), np.cumsum([len(f) for f in files])), np.arange(2))
photos = Pictures(data.sources()["imagenette"], split, split, (0.5,) * 3, (0.2,) * 3)
x, y = next(iter(data.batches(photos.train, 2, pictures=photos, size=28, train=True)))
assert x.shape == (2, 28, 28, 3)
found = data.input_wait(data.batches(pictures.train, 10, pictures=pictures), lambda x, y: x.sum(), 3)
assert found.steps == 3
try:
    data.pipeline(pictures.train, 10, pictures=pictures)
except data.DataError as error:
    print(error)
"""


def test_batches_need_no_tensorflow(tmp_path) -> None:
    import inspect

    from .conftest import jpeg

    source = inspect.getsource(jpeg)
    head = "from __future__ import annotations\nimport io\nimport numpy as np\n"
    (tmp_path / "tests_jpeg.py").write_text(head + source, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == "`pipeline` makes a tf.data.Dataset, and TensorFlow is not installed here: use `batches`.\n"


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, ampcourse.data; print([m for m in ('tensorflow', 'keras', 'PIL', 'psutil') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
