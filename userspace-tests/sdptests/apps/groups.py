# SPDX-License-Identifier: MIT
"""The groups of programs that run together."""

from sdptests.apps import (
    glusterfs,
    iperf3,
    iperf3_modes,
    java,
    java_nio,
    memcached,
    nbd,
    nginx,
    openssh,
    postgresql,
    python_http,
    qperf,
    redis,
    socat,
    sockperf,
    stress_ng,
    transfer,
    unreached,
)

# The programs of the demonstration.
FEW = [qperf, socat, java, iperf3, python_http, transfer]
# Common servers, and their load generators.
SERVERS = [redis, nginx, iperf3_modes, memcached, openssh, sockperf, postgresql, nbd]

# `run-all --group NAME`.
GROUPS = {
    "all": [*FEW, *SERVERS, java_nio, stress_ng],
    "servers": SERVERS,
    # Stressors of sockets.
    "stress": [stress_ng],
    # Stock OpenJDK, switched by its own configuration file.
    "openjdk": [java, java_nio],
    # Programs that no library reaches, switched by the kernel: sdp_run --bpf.
    "bpf": [unreached],
    # With its own address family, and by sdp_run.
    "glusterfs": [glusterfs],
}
