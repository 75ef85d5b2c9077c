# SPDX-License-Identifier: MIT
"""Which programs run together."""

from . import (
    iperf3,
    iperf3_modes,
    java,
    memcached,
    nginx,
    openssh,
    postgresql,
    python_http,
    qperf,
    redis,
    socat,
    sockperf,
    transfer,
)

# What the demonstration shows.
FEW = [qperf, socat, java, iperf3, python_http, transfer]
# Servers that people run, and their load generators.
SERVERS = [redis, nginx, iperf3_modes, memcached, openssh, sockperf, postgresql]
