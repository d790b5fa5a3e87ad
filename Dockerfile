FROM python:3.12-slim AS builder
ENV PIP_NO_CACHE_DIR=1
WORKDIR /srv/parley
COPY requirements.lock ./
COPY scripts/bootstrap scripts/
RUN scripts/bootstrap runtime && .venv/bin/python -m pip uninstall --quiet --yes pip
COPY app app
# The root file system may be read-only and file times may not survive a copy, so the bytecode is made here and trusted as it is.
RUN python3 -m compileall -q -f --invalidation-mode unchecked-hash .venv/lib app \
    && chmod -R a+rX .venv app

FROM python:3.12-slim
LABEL org.opencontainers.image.title="parley" \
      org.opencontainers.image.description="HTTP gateway that translates chat message formats" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
RUN groupadd --gid 10001 parley \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin parley \
    && install -d -o parley -g parley -m 0750 /data
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
HEALTHCHECK --interval=10s --timeout=4s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('PARLEY_SERVER__PORT') or 8000), timeout=3); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
CMD ["parley", "serve"]
