# SPDX-License-Identifier: MIT
"""Which programs run together."""

from . import (
    glusterfs,
    iperf3,
    iperf3_modes,
    java,
    java_nio,
    memcached,
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

# What the demonstration shows.
FEW = [qperf, socat, java, iperf3, python_http, transfer]
# Servers that people run, and their load generators.
SERVERS = [redis, nginx, iperf3_modes, memcached, openssh, sockperf, postgresql]

# `run-all --group NAME`.
GROUPS = {
    "all": [*FEW, *SERVERS, java_nio, stress_ng],
    "servers": SERVERS,
    # Stressors of sockets.
    "stress": [stress_ng],
    # Stock OpenJDK, by its own configuration file.
    "openjdk": [java, java_nio],
    # What no library reaches, by the kernel's own switch: sdp_run --bpf.
    "bpf": [unreached],
    # By its own address family and by the switch.
    "glusterfs": [glusterfs],
}
