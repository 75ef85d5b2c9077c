# SPDX-License-Identifier: MIT
"""PostgreSQL with pgbench; afterwards the sums of its tables must agree."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from twohosts.failure import check, parsed
from twohosts.lab import Case, Lab, Measured

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


def _bench(lab: Lab) -> Measured:
    programs = _programs()
    data = lab.directory / "postgresql"
    data.mkdir()
    shutil.chown(data, "postgres")
    # The server does not run as root.
    other = ["runuser", "-u", "postgres", "--"]
    lab.b.run(
        [*other, str(programs / "initdb"), "--pgdata", str(data), "--auth", "trust"]
        + ["--no-sync", "--encoding", "UTF8", "--no-locale"]
    )
    with (data / "pg_hba.conf").open("a") as file:
        file.write("host all all 10.0.0.0/24 trust\n")
    server = lab.wrapped(
        *(str(programs / "postgres"), "-D", str(data), "-p", PORT, "-F"),
        *("-c", f"listen_addresses={lab.b.ipv4}", "-c", "unix_socket_directories="),
        *("-c", "shared_buffers=16MB", "-c", "max_connections=20"),
    )
    where = ["-h", lab.b.ipv4, "-p", PORT, "-U", "postgres"]
    clients, each = 4, lab.amount(200, 25)
    with lab.b.start([*other, *server], ready="ready to accept connections"):
        pgbench = lab.wrapped(str(programs / "pgbench"), *where)
        lab.a.run([*pgbench, "--initialize", "--quiet", "postgres"])
        done = lab.a.run(
            [*pgbench, "-c", str(clients), "-j", "2", "-t", str(each), "--no-vacuum", "postgres"]
        )
        psql = lab.wrapped(str(programs / "psql"), *where, "--tuples-only", "--no-align")
        same = lab.a.run([*psql, "--command", SUMS, "postgres"]).stdout.strip()
    total = clients * each
    check(f"actually processed: {total}/{total}" in done.stdout, done.stdout)
    check(same == "t", f"the sums differ: {same}")
    rate = parsed(re.search(r"tps = ([\d.]+)", done.stdout), done.stdout, "a rate")
    # The accounts are loaded from the client: 100,000 rows. A transaction has five statements.
    return Measured(f"{float(rate[1]):.0f} per s", 1_000_000 + total * 300)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [Case("PostgreSQL pgbench", _bench)]
