# The image is for x86-64 and arm64: requirements.lock has the hashes of both. `make release` builds it on the base image
# of the digest that the registry has for this tag, and records the digest in the labels.
FROM python:3.12-slim AS builder
ENV PIP_NO_CACHE_DIR=1
WORKDIR /srv/parley
RUN apt-get -qq update && apt-get -qq install -y --no-install-recommends binutils gcc libc6-dev
# --build-arg EXTRAS="guards otel postgres" for rules of secrets from a file, traces, and usage in PostgreSQL.
ARG EXTRAS=""
COPY requirements.lock requirements-compile.lock requirements-guards.lock requirements-otel.lock requirements-postgres.lock ./
COPY scripts/bootstrap scripts/
RUN scripts/bootstrap compile $EXTRAS
COPY scripts/compile scripts/
COPY pyproject.toml ./
COPY app app
RUN scripts/compile build/compiled && rm -r app && mv build/compiled/app app
COPY deploy/image deploy/image
# Removes what the compiler needed, too.
RUN .venv/bin/python deploy/image/trim.py $EXTRAS
# The root file system may be read-only and file times may not survive a copy, so the bytecode is made here and trusted as it is.
RUN python3 -m compileall -q -f --invalidation-mode unchecked-hash .venv/lib app \
    && .venv/bin/python -B deploy/image/check_imports.py --compiled $EXTRAS \
    && chmod -R a+rX .venv app

FROM python:3.12-slim
# Nothing is installed in this image after it is built. It runs under any user id: /data belongs to the group root too, whose
# member every id without an account is.
RUN groupadd --gid 10001 parley \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin parley \
    && install -d -o parley -g root -m 0770 /data \
    && python3 -m pip uninstall --quiet --yes --root-user-action ignore pip
WORKDIR /srv/parley
COPY --from=builder /srv/parley/.venv .venv
COPY --from=builder /srv/parley/app app
COPY LICENSE ./
ENV PATH=/srv/parley/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PARLEY_SERVER__HOST=0.0.0.0 \
    PARLEY_CACHE__URL=sqlite:////data/cache.db \
    PARLEY_USAGE__URL=sqlite:////data/usage.db
USER 10001:10001
VOLUME ["/data"]
# All addresses are served, so the container needs keys, such as -e PARLEY_API_KEYS=NAME:KEY (docs/operate/keys.md), or
# -e PARLEY_SERVER__ALLOW_ANONYMOUS=true to serve everyone who can reach its port.
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-m", "app.commands.health"]
CMD ["parley", "serve"]
ARG CREATED="" REVISION="" BASE_DIGEST=""
LABEL org.opencontainers.image.title="parley" \
      org.opencontainers.image.description="HTTP gateway that translates chat message formats" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="docker.io/library/python:3.12-slim" \
      org.opencontainers.image.base.digest="$BASE_DIGEST"
