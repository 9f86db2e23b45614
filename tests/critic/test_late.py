"""Modules that load late: when, how often, and that TensorFlow is whole all the same."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dpwgan.critic import late

SOURCE = "import time\nimport late_log\nlate_log.runs.append(__name__)\ntime.sleep(0.2)\nname = 7\n"


@pytest.fixture
def log(tmp_path, monkeypatch):
    (tmp_path / "late_log.py").write_text("runs = []\n")
    (tmp_path / "late_module.py").write_text(SOURCE)
    (tmp_path / "usual_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(late, "_LATE", ("late_module",))
    for name in ("late_log", "late_module", "usual_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("late_log").runs


def test_module_runs_once_when_threads_ask_for_a_name_together(log):
    with late.loading_late():
        module = importlib.import_module("late_module")
        importlib.import_module("usual_module")
    assert log == ["usual_module"]
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(module.name)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7] * 4
    assert log == ["usual_module", "late_module"]


def test_attribute_error_is_raised_when_a_late_module_has_no_such_name(log):
    with late.loading_late():
        module = importlib.import_module("late_module")
    with pytest.raises(AttributeError, match="late_module"):
        _ = module.nonsense
    assert module.name == 7


def test_imports_are_as_before_when_the_block_is_left(log):
    before = list(sys.meta_path), late._KERAS in sys.modules
    with pytest.raises(RuntimeError), late.loading_late():
        raise RuntimeError
    assert (list(sys.meta_path), late._KERAS in sys.modules) == before


@pytest.mark.slow
def test_tensorflow_is_whole_when_it_is_loaded_late():
    script = """
import sys
from dpwgan.stages import WORKING, note
note(WORKING)
from dpwgan.critic import device
import tensorflow as tf
assert "keras.src" not in sys.modules and "pandas" not in sys.modules
value = tf.Variable([[1.0, 2.0]])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(value * tf.raw_ops.Softmax(logits=value))
assert tape.gradient(loss, value).shape == (1, 2)
assert tf.nn.relu(-1.0) == 0.0
assert tf.distribute.MirroredStrategy(["/cpu:0"]).num_replicas_in_sync == 1
assert tf.keras.layers.Dense(3)(tf.zeros((2, 5))).shape == (2, 3)
assert tf.compat.v1.zeros_initializer
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
