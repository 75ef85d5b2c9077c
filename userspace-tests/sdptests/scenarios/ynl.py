# SPDX-License-Identifier: MIT
"""The kernel's own client for netlink specifications (ynl.build), with spec/netlink/sdp.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sdptests import checkout
from sdptests.scenarios.network import command

CLIENT = Path("/run/vm/ynl.pyz")
SCHEMA = CLIENT.with_name("netlink-raw.yaml")
SPECIFICATION = checkout.TOP / "spec/netlink/sdp.yaml"

HEAD = {"family": 27, "protocol": 0, "reserved": 0}


def sockets(host: str, *details: str) -> list[dict[str, Any]]:
    """The sockets of a host with these details (flow, traffic), each as attributes by name."""
    client = ("python3", str(CLIENT), "--spec", str(SPECIFICATION), "--schema", str(SCHEMA))
    request = json.dumps(HEAD | {"show": list(details)})
    asked = ("--dump", "getsock", "--json", request, "--output-json")
    return json.loads(command(*client, *asked, host=host))
