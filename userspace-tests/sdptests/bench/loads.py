# SPDX-License-Identifier: MIT
"""What bench-programs lets unchanged programs do, one server and one load at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sdptests.apps import iperf3, memcached, nbd, nginx, openssh, postgresql, redis, sockperf
from sdptests.twohosts.lab import Lab

KIB, MIB = 1 << 10, 1 << 20
SMALL = 256
LINE = 1000
# Full amounts.
DISK = 64 * MIB
ROWS = 40_000
SECONDS = 3


@dataclass(frozen=True)
class Figure:
    """The result of a load."""

    # In the unit of the load.
    value: float
    # What the processors' time is divided by: MiB, or thousands of operations.
    work: float
    # Bytes that travelled, or fewer.
    payload: int


@dataclass(frozen=True)
class Load:
    """A program under load."""

    name: str
    # "per s", "MB/s", or "us", of which less is better.
    unit: str
    # A server meanwhile.
    serving: Callable[[Lab], AbstractContextManager[object]]
    # Before it is measured: what must exist, and a first use of everything.
    prepare: Callable[[Lab], object]
    measure: Callable[[Lab], Figure]


def _moved(bytes_: int, seconds: float) -> Figure:
    return Figure(bytes_ / seconds / 1e6, bytes_ / MIB, bytes_)


def _done(per_second: float, operations: int, size: int) -> Figure:
    return Figure(per_second, operations / 1000, operations * size)


def _redis(test: str, requests: int, size: int, clients: int) -> Load:
    def measure(lab: Lab) -> Figure:
        rate = redis.per_second(lab, test, requests, size, clients)
        if size < MIB:
            return _done(rate, requests, size)
        return _moved(requests * size, requests / rate)

    return Load(
        f"redis {test} {f'{size} B' if size < MIB else '1 MiB'}",
        "per s" if size < MIB else "MB/s",
        redis.serving,
        # GET needs a value.
        lambda lab: redis.per_second(lab, "SET", clients, size, clients),
        measure,
    )


def _memcached(operations: int) -> Load:
    size = KIB

    def measure(lab: Lab) -> Figure:
        # It fills its window first, by default with 10,000 values for each of its clients.
        rate = memcached.per_second(lab, operations, size, "-w", "1k")
        return _done(rate, operations, size // 2)

    return Load("memcached 1 KiB", "per s", memcached.serving, lambda _lab: None, measure)


def _nginx(size: int, seconds: int) -> Load:
    def measure(lab: Lab) -> Figure:
        count, took = nginx.requests(lab, seconds)
        if size < MIB:
            return _done(count / took, count, size)
        return _moved(count * size, took)

    return Load(
        f"nginx wrk {'1 MiB' if size == MIB else f'{size // KIB} KiB'}",
        "per s" if size < MIB else "MB/s",
        lambda lab: nginx.serve(lab, size)[0],
        lambda lab: nginx.answered(lab, 1),
        measure,
    )


def _pgbench(each: int) -> Load:
    clients = 4

    def measure(lab: Lab) -> Figure:
        # A transaction has five statements, each of some dozens of bytes.
        return _done(postgresql.per_second(lab, clients, each), clients * each, 300)

    return Load("pgbench", "per s", postgresql.serving, postgresql.initialise, measure)


def _copy(way: str, rows: int) -> Load:
    table = "create unlogged table if not exists lines (line text)"
    # Not compressed, and each line is another one.
    fill = f"insert into lines select rpad(n::text, {LINE}, 'x') from generate_series(1, {rows}) n"

    def prepare(lab: Lab) -> object:
        file = lab.directory / "lines"
        made = postgresql.command(lab, table, "truncate lines", fill, f"\\copy lines to '{file}'")
        return made if way == "to" else postgresql.command(lab, "truncate lines")

    def measure(lab: Lab) -> Figure:
        file = lab.directory / "lines" if way == "from" else "/dev/null"
        seconds = postgresql.seconds(lab, f"\\copy lines {way} '{file}'")
        return _moved(rows * (LINE + 1), seconds)

    serving = lambda lab: postgresql.serving(lab, "128MB")  # noqa: E731
    name = f"COPY {'out' if way == 'to' else 'in'}"
    return Load(name, "MB/s", serving, prepare, measure)


def _iperf3(streams: int, seconds: int) -> Load:
    def measure(lab: Lab) -> Figure:
        return _moved(*iperf3.moved(lab, "--time", str(seconds), "--parallel", str(streams)))

    # Its server ends after one run, so each has its own.
    nothing = lambda _lab: contextlib.nullcontext()  # noqa: E731
    name = f"iperf3 -P {streams}"
    return Load(name, "MB/s", nothing, lambda _lab: None, measure)


def _scp(size: int) -> Load:
    def measure(lab: Lab) -> Figure:
        _copied, seconds = openssh.copy(lab, lab.directory / "source")
        return _moved(size, seconds)

    def prepare(lab: Lab) -> object:
        return openssh.source(lab, size)

    return Load("scp", "MB/s", openssh.serving, prepare, measure)


def _sockperf(seconds: int) -> Load:
    def measure(lab: Lab) -> Figure:
        latency, answers = sockperf.one_way(lab, seconds)
        return Figure(latency, answers / 1000, 2 * answers * sockperf.SIZE)

    # It has a warm-up of its own, and a server for each run.
    nothing = lambda _lab: contextlib.nullcontext()  # noqa: E731
    return Load("sockperf 64 B", "us", nothing, lambda _lab: None, measure)


def _disk(size: int) -> Callable[[Lab], AbstractContextManager[object]]:
    return lambda lab: nbd.serving(lab, size)


def _nbdcopy(way: str, size: int) -> Load:
    def fill(lab: Lab) -> object:
        path = lab.directory / "disk"
        path.write_bytes(bytes(range(256)) * (size // 256))
        return nbd.written(lab, path)

    def measure(lab: Lab) -> Figure:
        write = way == "to"
        return _moved(size, nbd.written(lab, lab.directory / "disk") if write else nbd.read(lab))

    return Load(f"nbdcopy {way} disk", "MB/s", _disk(size), fill, measure)


def _fio(name: str, unit: str, size: int, seconds: int, *options: str) -> Load:
    def measure(lab: Lab) -> Figure:
        operations, bytes_ = nbd.fio(lab, seconds, f"--size={size}", *options)
        if unit == "MB/s":
            return _moved(round(bytes_ * seconds), seconds)
        return _done(operations, round(operations * seconds), round(bytes_ / operations))

    def prepare(lab: Lab) -> object:
        return nbd.fio(lab, 1, f"--size={size}", "--rw=write", "--bs=1M", "--iodepth=4")

    return Load(f"fio nbd {name}", unit, _disk(size), prepare, measure)


def loads(part: float = 1.0) -> list[Load]:
    """All loads, with that part of the full amounts."""

    def of(amount: int) -> int:
        return max(1, round(amount * part))

    disk, seconds = of(DISK // MIB) * MIB, of(SECONDS)
    return [
        _redis("SET", of(20_000), SMALL, 20),
        _redis("GET", of(20_000), SMALL, 20),
        _redis("SET", of(300), MIB, 8),
        _redis("GET", of(300), MIB, 8),
        _memcached(of(20_000)),
        _nginx(4 * KIB, seconds),
        _nginx(MIB, seconds),
        _pgbench(of(150)),
        _copy("to", of(ROWS)),
        _copy("from", of(ROWS)),
        _iperf3(1, seconds),
        _iperf3(8, seconds),
        _scp(of(32) * MIB),
        # A short one may have no answer after its warm-up.
        _sockperf(SECONDS),
        _nbdcopy("to", disk),
        _nbdcopy("from", disk),
        _fio("file system", "per s", disk, seconds, *nbd.FILE_SYSTEM),
        _fio("1 MiB reads", "MB/s", disk, seconds, "--rw=read", "--bs=1M", "--iodepth=4"),
    ]


# Those of them that run over rsockets, which have no fork().
FEW = ("redis", "iperf3", "sockperf", "nbdcopy", "memcached")
