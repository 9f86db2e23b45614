"""An engine, a base image and the project's image for the container tests, and nothing of them left behind.

An engine that answers is used as it is. Without one, root starts dockerd by hand on a memory file system. The base is a
stand-in that needs no image registry: a minimal Debian without Python, as bare as the CUDA image that it stands for.
`DPWGAN_TEST_BASE_IMAGE` names another base that the engine has. What cannot be had fails the tests: it skips none.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.programs import ROOT, call

STAND_IN = "localhost/dpwgan-stand-in-base"
IMAGE = "localhost/dpwgan-under-test"
REVISION = "0123456789abcdef0123456789abcdef01234567"
CREATED = "2020-01-02T03:04:05Z"
NEWER = "localhost/dpwgan-newer-stand-in-base"
NEWER_IMAGE = "localhost/dpwgan-under-test-newer"
# The releases of each distribution: the one whose own Python is 3.10 or 3.11, and a newer one.
SUITES = {"Debian": ("bookworm", "trixie"), "Ubuntu": ("jammy", "noble")}
# What a custodian would type: nothing to reach, nothing to write but /tmp and the data folder, nothing to become.
HARDENED = (
    *("--network", "none", "--read-only", "--tmpfs", "/tmp:rw,size=64m,mode=1777"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", "4g", "--pids-limit", "512"),
)


@dataclass(frozen=True)
class Engine:
    """A container engine, by its client and the environment that leads the client to it."""

    client: str
    environment: dict[str, str] = field(repr=False)

    def run(self, *arguments: str, check: bool = True, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Runs the client; with `check`, a failure fails the test with what the client said."""
        done = call(self.client, *arguments, env=self.environment, stdin=subprocess.DEVNULL, timeout=timeout)
        if check and done.returncode != 0:
            pytest.fail(f"docker {' '.join(arguments[:2])} exited {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def answers(self) -> bool:
        """Whether an engine is behind the client."""
        return self.run("info", check=False, timeout=30).returncode == 0


@dataclass(frozen=True)
class Image:
    """The project's image and the engine that holds it."""

    engine: Engine
    name: str
    base: str

    def run(
        self, *arguments: str, options: Sequence[str] = (), check: bool = False, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Runs the image hardened; the container is removed at its end."""
        return self.engine.run("run", "--rm", *HARDENED, *options, self.name, *arguments, check=check, timeout=timeout)


def find_client() -> str:
    """Returns Debian's own docker client where there is one: a bare client elsewhere may lack BuildKit."""
    client = "/usr/bin/docker" if Path("/usr/bin/docker").exists() else shutil.which("docker")
    if client is None:
        pytest.fail("the container tests need docker (on Debian: apt-get install docker.io debootstrap)")
    return client


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that was started here and waits until it has gone."""
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=30)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine that answers: this machine's, or one started by hand for the session."""
    client = find_client()
    environment = {**os.environ, "DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}
    given = Engine(client, environment)
    if given.answers():
        yield given
        return
    daemon = shutil.which("dockerd", path="/usr/sbin:/usr/bin:/sbin:/usr/local/sbin:/usr/local/bin")
    if daemon is None or os.geteuid() != 0:
        pytest.fail("no container engine answers, and starting one takes root and dockerd (Debian: docker.io)")
    # On memory, because deleting gigabytes of layers from a disk takes minutes. The path is short: it holds a socket.
    place = Path(tempfile.mkdtemp(prefix="dpwgan-engine-"))
    process: subprocess.Popen[bytes] | None = None
    mounted = False
    # pytest tears its fixtures down on Ctrl-C and not on SIGTERM, which a time limit sends: make one the other.
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10g,mode=700", "none", str(place)], check=True)
        mounted = True
        socket = f"unix://{place}/d.sock"
        log = place / "dockerd.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [
                    *(daemon, "--data-root", f"{place}/root", "--exec-root", f"{place}/exec", "-H", socket),
                    *("--pidfile", f"{place}/d.pid", "--iptables=false", "--ip6tables=false", "--bridge=none"),
                    *("--storage-driver", "overlay2"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        own = Engine(client, {**environment, "DOCKER_HOST": socket})
        deadline = time.monotonic() + 60
        while not own.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail("dockerd did not come up:\n" + log.read_text(errors="replace")[-4000:])
            time.sleep(0.5)
        yield own
        running = own.run("ps", "--all", "--quiet", check=False).stdout.split()
        if running:
            own.run("rm", "--force", *running, check=False)
    finally:
        if process is not None:
            stop_process(process)
        unmount_all(place)
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=False)
        shutil.rmtree(place, ignore_errors=True)
        signal.signal(signal.SIGTERM, previous)


def unmount_all(place: Path) -> None:
    """Unmounts what the engine may have left mounted below `place`, the deepest first."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(f"{place}/")), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)


def find_mirror() -> tuple[str, tuple[str, str]]:
    """Returns the package mirror that this machine's apt uses and the suites to take from it."""
    form = "$(ORIGIN) $(COMPONENT) $(REPO_URI)"
    done = call("apt-get", "indextargets", "--format", form, "Created-By: Packages")
    for line in done.stdout.splitlines():
        origin, component, uri = line.split(" ", 2)
        if origin in SUITES and component == "main" and "security" not in uri:
            return uri, SUITES[origin]
    pytest.fail("apt knows no mirror of Debian or Ubuntu (run apt-get update first)")


def build_stand_in(cache: Path, *, newer: bool) -> Path:
    """Returns the stand-in base as an archive, made once and kept in the user's cache folder."""
    mirror, suites = find_mirror()
    suite = suites[newer]
    archive = cache / f"stand-in-base-{suite}.tar"
    if archive.exists():
        return archive
    debootstrap = shutil.which("debootstrap", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if debootstrap is None or os.geteuid() != 0:
        pytest.fail("making the stand-in base takes root and debootstrap (Debian: apt-get install debootstrap)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dpwgan-base-") as directory:
        tree = Path(directory) / "root"
        done = call(debootstrap, "--variant=minbase", "--include=ca-certificates", suite, tree, mirror)
        if done.returncode != 0:
            pytest.fail(f"debootstrap exited {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        shutil.rmtree(tree / "var/cache/apt/archives", ignore_errors=True)
        half = archive.with_suffix(f".{os.getpid()}.half")
        subprocess.run(["tar", "-C", str(tree), "--numeric-owner", "-cf", str(half), "."], check=True)
        half.replace(archive)
    return archive


def import_base(engine: Engine, name: str, *, newer: bool) -> str:
    """Gives the engine a stand-in base under this name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpwgan"
    path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    engine.run("import", "--change", path, str(build_stand_in(cache, newer=newer)), name)
    return name


@pytest.fixture(scope="session")
def base(engine: Engine) -> str:
    """The name of the base image."""
    return os.environ.get("DPWGAN_TEST_BASE_IMAGE") or import_base(engine, STAND_IN, newer=False)


def pip_secrets(directory: Path) -> list[str]:
    """Returns the build options that give the build this machine's pip settings, where it has any."""
    done = call(sys.executable, "-m", "pip", "config", "list", check=True)
    settings = dict(re.findall(r"^(?:global|:env:)\.([a-z-]+)='(.*)'$", done.stdout, flags=re.MULTILINE))
    options = []
    lines = ["[global]", "default-timeout = 180"]
    lines += [f"{key} = {settings[key]}" for key in ("index-url", "proxy", "trusted-host") if key in settings]
    if "cert" in settings:
        lines.append("cert = /run/secrets/ca_bundle")
        options += ["--secret", f"id=ca_bundle,src={settings['cert']}"]
    (directory / "pip.conf").write_text("\n".join(lines) + "\n")
    return ["--secret", f"id=pip_conf,src={directory}/pip.conf", *options]


def build_image(engine: Engine, name: str, base: str, secrets: Path, *more: str) -> Image:
    """Builds the project's image from the working tree."""
    proxies = [name for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ]
    engine.run(
        *("build", "--network", "host", "--tag", name, "--build-arg", f"BASE_IMAGE={base}", *more),
        *("--build-arg", f"REVISION={REVISION}", "--build-arg", f"CREATED={CREATED}"),
        *(option for name in proxies for option in ("--build-arg", name)),
        *pip_secrets(secrets),
        str(ROOT),
        timeout=1500,
    )
    return Image(engine, name, base)


@pytest.fixture(scope="session")
def image(engine: Engine, base: str, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The project's image."""
    return build_image(engine, IMAGE, base, tmp_path_factory.mktemp("pip"))


@pytest.fixture(scope="session")
def newer_image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The project's image without what serves GPUs, on a newer Debian or Ubuntu with a newer Python."""
    base = import_base(engine, NEWER, newer=True)
    more = ("--build-arg", "TENSORFLOW=tensorflow-cpu")
    return build_image(engine, NEWER_IMAGE, base, tmp_path_factory.mktemp("pip"), *more)


@pytest.fixture
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder for a container's input and output, reachable by any user that a test names."""
    folder = Path(tempfile.mkdtemp(prefix="dpwgan-data-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
