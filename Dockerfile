# docker build -t dpdistill . && docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" dpdistill verify shared
FROM python:3.12-slim
COPY constraints.txt hatch_build.py pyproject.toml README.md LICENSE /package/
COPY src /package/src
RUN pip install --no-cache-dir -c /package/constraints.txt '/package[digits,plot,tables,xgboost]' && rm -r /package
RUN useradd --create-home dpdistill
USER dpdistill
WORKDIR /data
ENTRYPOINT ["dpdistill"]
CMD ["--help"]
