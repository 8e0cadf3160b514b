# syntax=docker/dockerfile:1
# Two tiny Ceph RGW clusters in one container, for trying Headgate out. Data lives in memory.
# Build from the root of the repository.

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      bc ceph-common ceph-mon ceph-osd curl procps radosgw util-linux \
 && rm -rf /var/lib/apt/lists/*
COPY test/real/services/rgw-up.sh test/real/services/rgw-down.sh /usr/local/bin/
EXPOSE 7481 7482
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD ["curl", "-sf", "-o", "/dev/null", "http://127.0.0.1:7482/"]
CMD ["sh", "-c", "rgw-up.sh -d /tmp/rgw -l 0.0.0.0 && exec sleep infinity"]
