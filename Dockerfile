# fairseq_ssl with torch and fairseq: the extra `all`, without the tools of development.
#
#   docker build -t fairseq-ssl .                                          for CPUs
#   docker build -t fairseq-ssl:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126 .
#   docker run --rm -v "$PWD:/data" fairseq-ssl noise clean.txt --method direct -o noisy.txt
#   docker run --rm --gpus all -v "$PWD:/data" --entrypoint fairseq-train fairseq-ssl:cuda ...
#
# No image has been built yet, neither for CPUs nor for CUDA. torch's wheels contain CUDA's libraries, so
# that the host needs only NVIDIA's driver and its container toolkit.
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
WORKDIR /source
COPY scripts/constraints.txt scripts/constraints.txt
# torch comes first and fairseq is built against it: with isolation pip would fetch a second torch.
RUN pip install --constraint scripts/constraints.txt --index-url "$TORCH_INDEX" \
      --extra-index-url https://pypi.org/simple torch torchaudio \
    && pip install --constraint scripts/constraints.txt numpy cython ninja packaging setuptools wheel \
    && pip install --constraint scripts/constraints.txt --no-build-isolation fairseq-fixed
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE CHANGELOG.md CITATION.cff SECURITY.md ./
COPY fairseq_ssl fairseq_ssl
RUN pip install --constraint scripts/constraints.txt --no-build-isolation ".[all]"

FROM python:${PYTHON}-slim
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home user
COPY --from=build /opt/venv /opt/venv
COPY examples /opt/examples
ENV PATH=/opt/venv/bin:$PATH
USER user
WORKDIR /data
ENTRYPOINT ["fairseq-ssl"]
CMD ["--help"]
