# SPDX-License-Identifier: MIT
"""PostgreSQL with pgbench; afterwards the sums of its tables must agree."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from sdptests.twohosts.failure import check, parsed
from sdptests.twohosts.lab import Case, Lab, Measured

PORT = "5433"

SUMS = """
select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
   and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
   and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)
"""


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    check(found, "no PostgreSQL in /usr/lib/postgresql")
    return found[-1]


# The server does not run as root.
_OTHER = ("runuser", "-u", "postgres", "--")


def _cluster(lab: Lab) -> Path:
    """The directory of the data; made once."""
    data = lab.directory / "postgresql"
    if not data.exists():
        data.mkdir()
        shutil.chown(data, "postgres")
        lab.b.run(
            [*_OTHER, str(_programs() / "initdb"), "--pgdata", str(data), "--auth", "trust"]
            + ["--no-sync", "--encoding", "UTF8", "--no-locale"]
        )
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all 10.0.0.0/24 trust\n")
    return data


@contextlib.contextmanager
def serving(lab: Lab, buffers: str = "16MB") -> Iterator[None]:
    """A server meanwhile."""
    server = lab.wrapped(
        *(str(_programs() / "postgres"), "-D", str(_cluster(lab)), "-p", PORT, "-F"),
        *("-c", f"listen_addresses={lab.b.ipv4}", "-c", "unix_socket_directories="),
        *("-c", f"shared_buffers={buffers}", "-c", "max_connections=20"),
    )
    with lab.b.start([*_OTHER, *server], ready="ready to accept connections"):
        yield


def _client(lab: Lab, name: str) -> list[str]:
    where = ("-h", lab.b.ipv4, "-p", PORT, "-U", "postgres")
    return lab.wrapped(str(_programs() / name), *where)


def initialise(lab: Lab) -> None:
    """The tables of pgbench."""
    lab.a.run([*_client(lab, "pgbench"), "--initialize", "--quiet", "postgres"])


def per_second(lab: Lab, clients: int, each: int) -> float:
    """The rate of so many transactions of each client."""
    done = lab.a.run(
        [*_client(lab, "pgbench"), "-c", str(clients), "-j", "2", "-t", str(each)]
        + ["--no-vacuum", "postgres"]
    )
    total = clients * each
    check(f"actually processed: {total}/{total}" in done.stdout, done.stdout)
    return float(parsed(re.search(r"tps = ([\d.]+)", done.stdout), done.stdout, "a rate")[1])


def command(lab: Lab, *text: str) -> str:
    """The answer to statements of SQL or commands of psql."""
    psql = [*_client(lab, "psql"), "--quiet", "--tuples-only", "--no-align"]
    commands = [word for one in text for word in ("--command", one)]
    return lab.a.run([*psql, "-v", "ON_ERROR_STOP=1", *commands, "postgres"]).stdout.strip()


def seconds(lab: Lab, text: str) -> float:
    """The time of one command as psql measures it, without the time of its start."""
    told = command(lab, "\\timing on", text)
    return float(parsed(re.search(r"Time: ([\d.]+) ms", told), told, "a time")[1]) / 1000


def _bench(lab: Lab) -> Measured:
    clients, each = 4, lab.amount(200, 25)
    with serving(lab):
        initialise(lab)
        rate = per_second(lab, clients, each)
        same = command(lab, SUMS)
    check(same == "t", f"the sums differ: {same}")
    # The accounts are loaded from the client: 100,000 rows. A transaction has five statements.
    return Measured(f"{rate:.0f} per s", 1_000_000 + clients * each * 300)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("PostgreSQL pgbench", _bench)]
