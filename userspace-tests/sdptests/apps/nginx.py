# SPDX-License-Identifier: MIT
"""nginx, which sends files by sendfile, with wrk; also with a listener for each worker."""

from __future__ import annotations

import hashlib
import random
import re

from sdptests.twohosts.failure import Failure, check, parsed
from sdptests.twohosts.hosts import Server
from sdptests.twohosts.lab import Case, Lab, Measured

PORT = 8081
SIZE = 100_003

CONFIGURATION = """
daemon off;
user root;
worker_processes 2;
error_log stderr notice;
pid {directory}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen {address}:{port}{options};
        root {directory}/www;
    }}
}}
"""


def serve(lab: Lab, size: int, options: str = "") -> tuple[Server, bytes]:
    """A server of one file, and the file's content."""
    content = random.Random("nginx").randbytes(size)
    (lab.directory / "www").mkdir(exist_ok=True)
    (lab.directory / "www" / "content").write_bytes(content)
    configuration = lab.directory / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.format(
            directory=lab.directory, address=lab.b.ipv4, port=PORT, options=options
        )
    )
    command = lab.wrapped("/usr/sbin/nginx", "-p", str(lab.directory), "-c", str(configuration))
    return lab.b.start(command, ready="start worker process "), content


def url(lab: Lab) -> str:
    """The URL of the file."""
    return f"http://{lab.b.ipv4}:{PORT}/content"


def _load(lab: Lab, options: str = "") -> Measured:
    server, content = serve(lab, SIZE, options)
    with server:
        fetched = lab.directory / "fetched"
        curl = lab.wrapped("curl", "--silent", "--show-error", "--output", str(fetched), url(lab))
        lab.a.run(curl)
        same = hashlib.sha256(fetched.read_bytes()).digest() == hashlib.sha256(content).digest()
        check(same, "another file came")
        count, seconds = requests(lab, lab.amount(10, 3))
    return Measured(f"{count / seconds:.0f} per s", count * SIZE)


def answered(lab: Lab, seconds: int, clients: int = 16) -> int:
    """The number of requests answered in that time."""
    # Its own limit of two seconds is for machines that are not emulated.
    wrk = ["wrk", "-t", "2", "-c", str(clients), "-d", f"{seconds}s", "--timeout", "60s", url(lab)]
    done = lab.a.run(lab.wrapped(*wrk))
    result = parsed(re.search(r"(\d+) requests in", done.stdout), done.stdout, "a result")
    for trouble in ("Socket errors", "Non-2xx"):
        check(trouble not in done.stdout, done.stdout)
    return int(result[1])


def requests(lab: Lab, least: int) -> tuple[int, int]:
    """Requests that were answered, and the seconds that took; more of these on a slow machine."""
    for seconds in (least, 5 * least, 25 * least):
        if count := answered(lab, seconds):
            return count, seconds
    raise Failure("no request was answered")


def _shared_port(lab: Lab) -> Measured:
    return _load(lab, " reuseport")


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("nginx wrk", _load), Case("nginx reuseport wrk", _shared_port)]
