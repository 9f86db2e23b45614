# The default base holds the CUDA 12.2 and cuDNN 8 libraries that the TensorFlow 2.15 wheel was built for, and runs on
# machines without a GPU as well. Any image of Debian or Ubuntu serves, with a Python from 3.10 to 3.13 or without one.
ARG BASE_IMAGE=nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04@sha256:2d913b09e6be8387e1a10976933642c73c840c0b735f0bf3c28d97fc9bc422e0
# What labels and provenance say of the build.
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG BUILDER=urn:dpwgan:builder:unnamed

# What the later stages start from: the base with a Python.
FROM ${BASE_IMAGE} AS python
# hadolint ignore=DL3002 # the base may set another user; the last stage sets the one that runs
USER 0:0
# hadolint ignore=DL3008 # the version is the base image's choice; the check below refuses a wrong one
RUN set -eu; \
    if ! command -v python3 >/dev/null; then \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3; \
        rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log; \
    fi; \
    python3 -c 'import sys; sys.exit(None if (3, 10) <= sys.version_info < (3, 14) else \
        "dpwgan needs Python 3.10 to 3.13, and the base image has " + sys.version.split()[0])'

# Everything that is installed; what it needs for that (pip, package lists, caches) stays behind here.
FROM python AS build
# hadolint ignore=DL3008,DL3009 # as above; and this stage stays behind
RUN set -eu; \
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-venv; \
    fi; \
    python3 -m venv /opt/venv
# tensorflow-cpu is the same without what serves GPUs alone, and 0.4 GB smaller.
ARG TENSORFLOW=tensorflow
WORKDIR /tmp
COPY requirements.txt requirements-cpu.txt /tmp/
# Behind a proxy, give pip its settings as secrets: --secret id=pip_conf,src=FILE --secret id=ca_bundle,src=FILE. They
# reach this one command and no layer. pip compiles what it installs: without that, each run on a read-only root would
# pay half a minute for it. pyarrow serves pandas frames, and TensorFlow's C++ headers serve compilers only.
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle \
    set -eu; \
    if [ "${TENSORFLOW}" = tensorflow-cpu ]; then \
        sed -i '/^tensorflow==/,/[^\\]$/d' requirements.txt; \
        cat requirements-cpu.txt >>requirements.txt; \
    fi; \
    PIP_CONFIG_FILE=/run/secrets/pip_conf /opt/venv/bin/python -m pip install \
        --no-cache-dir --disable-pip-version-check --quiet --progress-bar off \
        --no-deps --require-hashes --only-binary :all: --requirement requirements.txt; \
    /opt/venv/bin/python -m pip uninstall --yes --quiet pyarrow pip; \
    rm -rf /opt/venv/lib/python3*/site-packages/tensorflow/include
COPY run.py LICENSE /opt/dpwgan/
COPY dpwgan /opt/dpwgan/dpwgan
# Readable by whoever --user names, and compiled so that it need not be checked against its source.
RUN set -eu; \
    chmod -R a+rX,go-w /opt/dpwgan; \
    /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/dpwgan

# What is installed, as a list for whoever looks for known faults in it. The tool that writes it stays behind here.
FROM build AS sbom
COPY requirements-sbom.txt pyproject.toml /tmp/
RUN --mount=type=secret,id=pip_conf --mount=type=secret,id=ca_bundle \
    set -eu; \
    python3 -m venv /opt/sbom; \
    PIP_CONFIG_FILE=/run/secrets/pip_conf /opt/sbom/bin/python -m pip install \
        --no-cache-dir --disable-pip-version-check --quiet --progress-bar off --no-compile \
        --no-deps --require-hashes --only-binary :all: --requirement /tmp/requirements-sbom.txt; \
    /opt/sbom/bin/cyclonedx-py environment /opt/venv/bin/python --pyproject /tmp/pyproject.toml \
        --output-reproducible --output-file /opt/sbom.cdx.json
# Where the image comes from. The requirements as they were, whatever the build made of them.
COPY requirements.txt requirements-cpu.txt requirements-sbom.txt scripts/write_provenance.py /tmp/provenance/
ARG BASE_IMAGE
ARG VERSION
ARG REVISION
ARG CREATED
ARG BUILDER
WORKDIR /tmp/provenance
RUN python3 write_provenance.py /opt/dpwgan /opt/sbom.cdx.json requirements*.txt >/opt/provenance.json

FROM python
ARG BASE_IMAGE
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="dpwgan" \
      org.opencontainers.image.description="Synthetic tables with differential privacy: a private table in, a releasable table and its claim out" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The dpwgan developers" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/dpwgan /opt/dpwgan
COPY --from=sbom /opt/sbom.cdx.json /opt/provenance.json /usr/share/doc/dpwgan/
# Nothing is written but the output: the root may be read-only and the user may have no home.
ENV PATH=/opt/venv/bin:${PATH} \
    HOME=/tmp \
    XDG_CACHE_HOME=/tmp/.cache \
    MPLCONFIGDIR=/tmp/.matplotlib \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 10001:10001
# Python itself is process 1: it gets the signal, removes what is half done and returns 143.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/venv/bin/python", "/opt/dpwgan/run.py"]
CMD ["--help"]
