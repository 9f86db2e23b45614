"""Models in archives: they come back as they were, and a name that no model has is written nowhere."""

from pathlib import Path

import numpy as np
import pytest

from dpwgan.errors import InputError
from dpwgan.table.saved import MODEL_FILES, pack_model, unpack_model


class Files:
    """A model of the files that it is told to write."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def save(self, directory: Path) -> None:
        for name in self.names:
            (directory / name).write_text(name)


def test_model_comes_back_when_it_has_the_files_of_one():
    packed = pack_model(Files(*MODEL_FILES))
    assert unpack_model(packed, lambda folder: {path.name: path.read_text() for path in folder.iterdir()}) == {
        name: name for name in MODEL_FILES
    }


@pytest.mark.parametrize("name", ["../planted", "/tmp/planted", "mixture.npz/../../planted", "other.npz", ""])
def test_archive_is_refused_when_it_names_what_no_model_has(tmp_path, monkeypatch, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    content = np.frombuffer(b"planted", np.uint8)
    with pytest.raises(InputError, match="holds a file that no model has"):
        unpack_model({"mixture.npz": content, name: content}, lambda folder: None)
    assert list(tmp_path.rglob("*")) == []


def test_model_is_not_packed_when_it_has_a_file_that_is_on_no_list():
    with pytest.raises(InputError, match="holds a file that no model has"):
        pack_model(Files("other.json"))
