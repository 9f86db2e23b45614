"""The image as a custodian runs it: hardened, under any user, on the bundled example."""

import hashlib
import json
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Form

from dpwgan.version import __version__

from .conftest import CREATED, HARDENED, REVISION, ROOT, Image

pytestmark = pytest.mark.container

EXAMPLE = ROOT / "examples" / "rand-hie"
OWN_USER = 10001
OTHER_USER = (23456, 34567)
RECORDS = 20_190


def fill(folder: Path, *, records: int | None = None, owner: int | tuple[int, int] = OWN_USER) -> None:
    """Puts the example, or its first records, into `folder`, which then belongs to `owner` like the files in it."""
    with (EXAMPLE / "data.csv").open(encoding="utf-8") as source:
        lines = islice(source, None if records is None else records + 1)
        (folder / "data.csv").write_text("".join(lines), encoding="utf-8")
    shutil.copyfile(EXAMPLE / "data-specs.json", folder / "data-specs.json")
    uid, gid = owner if isinstance(owner, tuple) else (owner, owner)
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, uid, gid)


def mount(folder: Path) -> tuple[str, str]:
    """Returns the option that shows `folder` to the container as /x."""
    return ("--volume", f"{folder}:/x")


# Fast tests of the parts that lean on TensorFlow, numpy, polars and the standard library.
SLICE = (
    "tests/critic/test_critic.py",
    "tests/table/test_codecs.py",
    "tests/marginals/answers/test_row_products.py",
    "tests/app/test_cli.py",
)
ARGUMENTS = ("/x/data.csv", "/x/output.csv", "/x/data-specs.json")
LEFTOVERS_ALLOWED = {"data.csv", "data-specs.json"}


@pytest.mark.parametrize("which", ["image", "newer_image"])
def test_image_makes_a_table_and_its_claim_when_run_hardened_as_its_own_user(request, which, data_folder):
    image: Image = request.getfixturevalue(which)
    fill(data_folder)
    done = image.run(*ARGUMENTS, "1.0", options=mount(data_folder))
    assert done.returncode == 0, done.stderr
    output = data_folder / "output.csv"
    claim = json.loads((data_folder / "output.csv.privacy.json").read_text(encoding="utf-8"))
    lines = output.read_text(encoding="utf-8").splitlines()
    assert lines[0] == (EXAMPLE / "data.csv").read_text(encoding="utf-8").splitlines()[0]
    assert len(lines) == RECORDS + 1
    assert __version__ in json.dumps(claim)
    assert output.stat().st_uid == OWN_USER
    assert {path.name for path in data_folder.iterdir()} == LEFTOVERS_ALLOWED | {
        output.name,
        f"{output.name}.privacy.json",
    }


def test_image_gives_its_files_to_the_user_when_another_one_is_named(image, data_folder):
    fill(data_folder, records=1000, owner=OTHER_USER)
    options = ("--user", f"{OTHER_USER[0]}:{OTHER_USER[1]}", *mount(data_folder))
    done = image.run(*ARGUMENTS, "1.0", "--steps", "100", options=options)
    assert done.returncode == 0, done.stderr
    for name in ("output.csv", "output.csv.privacy.json"):
        status = (data_folder / name).stat()
        assert (status.st_uid, status.st_gid) == OTHER_USER


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param((*ARGUMENTS, "abc"), 2, id="epsilon-is-no-number"),
        pytest.param(("/x/no-such.csv", *ARGUMENTS[1:], "1.0"), 66, id="data-is-missing"),
        pytest.param((*ARGUMENTS[:2], "/x/data.csv", "1.0"), 78, id="specs-are-no-json"),
        pytest.param((ARGUMENTS[0], "/x/no-such/output.csv", ARGUMENTS[2], "1.0"), 73, id="output-has-no-folder"),
    ],
)
def test_image_passes_the_exit_code_on_when_a_run_is_refused(image, data_folder, arguments, code):
    fill(data_folder, records=50)
    done = image.run(*arguments, options=mount(data_folder))
    assert done.returncode == code, done.stderr
    assert done.stderr.strip()
    assert {path.name for path in data_folder.iterdir()} == LEFTOVERS_ALLOWED


def test_image_refuses_the_output_when_the_folder_is_not_the_users(image, data_folder):
    fill(data_folder, records=50, owner=0)
    done = image.run(*ARGUMENTS, "1.0", options=mount(data_folder))
    assert done.returncode == 73, done.stderr
    assert {path.name for path in data_folder.iterdir()} == LEFTOVERS_ALLOWED


def test_image_leaves_no_half_file_when_it_is_stopped_in_training(image, data_folder):
    fill(data_folder)
    engine = image.engine
    # Enough steps that a tenth of them takes seconds, and the rest minutes.
    arguments = (*ARGUMENTS, "1.0", "--anchor", "none", "--steps", "6000", "--verbose")
    container = engine.run("run", "--detach", *HARDENED, *mount(data_folder), image.name, *arguments).stdout.strip()
    try:
        state = ("inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", container)
        deadline = time.monotonic() + 300
        while True:
            logs = engine.run("logs", container)
            running = engine.run(*state).stdout.split()[0] == "true"
            assert running, logs.stdout + logs.stderr
            if "step 600 of 6000" in logs.stderr:
                break
            assert time.monotonic() < deadline, logs.stdout + logs.stderr
            time.sleep(1)
        engine.run("stop", "--time", "60", container)
        logs = engine.run("logs", container)
        assert engine.run(*state).stdout.split() == ["false", "143"], logs.stdout + logs.stderr
        assert {path.name for path in data_folder.iterdir()} == LEFTOVERS_ALLOWED
    finally:
        engine.run("rm", "--force", container, check=False)


def test_image_answers_help_when_no_argument_is_given(image):
    done = image.run()
    assert done.returncode == 0, done.stderr
    assert "EPSILON" in done.stdout


def test_image_says_what_it_is_when_inspected(image):
    config = json.loads(image.engine.run("image", "inspect", image.name).stdout)[0]["Config"]
    prefix = "org.opencontainers.image."
    labels = {name.removeprefix(prefix): text for name, text in config["Labels"].items() if name.startswith(prefix)}
    assert labels["title"] == "dpwgan"
    assert labels["version"] == __version__
    assert labels["licenses"] == "Apache-2.0"
    assert labels["revision"] == REVISION
    assert labels["created"] == CREATED
    assert labels["base.name"] == image.base
    assert labels["description"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["/opt/venv/bin/python", "/opt/dpwgan/run.py"]
    assert config["StopSignal"] == "SIGTERM"
    assert not config.get("Healthcheck")


@pytest.mark.parametrize(("which", "most"), [("image", 2.3e9), ("newer_image", 1.9e9)])
def test_image_adds_no_more_than_its_packages_when_weighed(request, which, most):
    image: Image = request.getfixturevalue(which)
    inspected = json.loads(image.engine.run("image", "inspect", image.base, image.name).stdout)
    base, whole = (entry["Size"] for entry in inspected)
    # 2.1 GB, half of it TensorFlow's libraries; compilers, headers or a pip cache would pass the limit.
    assert whole - base < most


@pytest.mark.parametrize("which", ["image", "newer_image"])
def test_image_lists_what_it_holds_when_its_bill_of_materials_is_read(request, which):
    image: Image = request.getfixturevalue(which)
    script = (
        "import importlib.metadata as m, json; listed = json.load(open('/usr/share/doc/dpwgan/sbom.cdx.json')); "
        "print(json.dumps([sorted([c['name'], c['version']] for c in listed['components']), "
        "sorted([d.metadata['Name'], d.version] for d in m.distributions())]))"
    )
    done = image.run("-c", script, options=("--entrypoint", "/opt/venv/bin/python"), check=True)
    listed, held = json.loads(done.stdout)
    assert listed == held
    assert {"tensorflow", "tensorflow-cpu", "tensorflow_cpu"} & {name for name, _ in listed}


def test_image_says_where_it_comes_from_when_in_toto_reads_its_provenance(newer_image):
    # What `sha256sum` says of the tree is its digest; the list of packages is the other thing that was made.
    script = (
        "cd /usr/share/doc/dpwgan && cat provenance.json && echo && sha256sum <sbom.cdx.json && cd /opt/dpwgan && "
        "find . -type f ! -name '*.pyc' | cut -c 3- | LC_ALL=C sort | xargs sha256sum | sha256sum"
    )
    done = newer_image.run("-c", script, options=("--entrypoint", "/bin/sh"), check=True)
    text, *digests = done.stdout.rsplit("\n", 3)[:3]
    statement = Statement.copy_from_pb(json_format.Parse(text, Form()))
    statement.validate()
    assert statement.pb.predicate_type == "https://slsa.dev/provenance/v1"
    found = [next(iter(subject.digest.values())) for subject in statement.pb.subject]
    assert found == [line.split()[0] for line in reversed(digests)]
    provenance = json_format.ParseDict(json_format.MessageToDict(statement.pb.predicate), Provenance())
    definition = provenance.build_definition
    given = dict(definition.external_parameters)
    assert (given["BASE_IMAGE"], given["TENSORFLOW"]) == (newer_image.base, "tensorflow-cpu")
    digests = {one.name: dict(one.digest) for one in definition.resolved_dependencies}
    assert digests.pop("dpwgan") == {"gitCommit": REVISION}
    assert digests.pop(newer_image.base) == {}  # it was made here, and comes from no registry
    assert set(digests) == {"requirements.txt", "requirements-cpu.txt", "requirements-sbom.txt"}
    for name, digest in digests.items():
        assert digest == {"sha256": hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}
    assert provenance.run_details.builder.id
    assert "/opt" not in text
    assert "/tmp" not in text


def test_fast_tests_pass_when_python_is_newer(newer_image, tmp_path):
    tools = [f"{name}=={version(name)}" for name in ("pytest", "pluggy", "iniconfig", "hypothesis", "sortedcontainers")]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--python-version", "3.13", "--target", str(tmp_path), *tools),
        ],
        check=True,
    )
    options = ("--volume", f"{ROOT}:/src:ro", "--volume", f"{tmp_path}:/tools:ro", "--workdir", "/src")
    words = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not statistical", *SLICE)
    options += ("--user", "0:0", "--env", "HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis")
    paths = ("--env", "PYTHONPATH=/tools", "--entrypoint", "/opt/venv/bin/python")
    done = newer_image.run(*words, options=(*options, *paths))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_image_holds_no_installer_or_compiler_when_searched(image):
    script = (
        "for tool in pip pip3 gcc cc g++ make; do command -v $tool; done; python -m pip --version; ls -d /root/.cache/*"
    )
    done = image.run("-c", script, options=("--entrypoint", "/bin/sh"))
    assert done.stdout.strip() == ""


def test_image_holds_compiled_code_when_its_root_cannot_be_written(image):
    script = (
        "find /opt/dpwgan /opt/venv/lib/python3*/site-packages/tensorflow -name '*.py' | wc -l; "
        "find /opt/dpwgan /opt/venv/lib/python3*/site-packages/tensorflow -name '*.pyc' | wc -l"
    )
    done = image.run("-c", script, options=("--entrypoint", "/bin/sh"), check=True)
    sources, compiled = (int(line) for line in done.stdout.split())
    assert sources > 1000
    assert compiled >= 0.99 * sources
