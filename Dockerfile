# The server alone: no engine, no GPU. Recording runs outside, next to the engines.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY capture capture
COPY static static
COPY templates templates
COPY data data
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels flipscope \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin flipscope
USER 10001
EXPOSE 8017
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8017/healthz', timeout=4)"]
ENTRYPOINT ["flipscope"]
CMD ["serve", "/library", "--host", "0.0.0.0", "--port", "8017"]
