# SPDX-License-Identifier: MIT
"""Tools for administrators: sdp_ss, its netlink interface, trace events."""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sdptests import checkout
from sdptests.peer.peer import namespace
from sdptests.peer.stream import Listener
from sdptests.scenarios import leftovers, limits, traffic, uncopied, ynl
from sdptests.scenarios.network import A, B, command
from sdptests.scenarios.register import scenario, ynl_scenario
from sdptests.twohosts import counters, uapi
from sdptests.twohosts.counters import GAUGES
from sdptests.twohosts.failure import Failure, check

SO_COOKIE = 57
# Of a connection, in each direction.
BYTES = 5000
Row = dict[str, Any]


def rows(host: str, *words: str) -> list[Row]:
    """The sockets of a host in sdp_ss."""
    return json.loads(command("sdp_ss", "-N", host, "-J", *words))


def only(host: str, *words: str) -> Row:
    """The one socket that the filter selects."""
    found = rows(host, *words)
    check(len(found) == 1, f"{' '.join(words)} on {host}: {found}")
    return found[0]


def cookie(sock: socket.socket) -> int:
    """The socket's cookie."""
    return struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]


def either(host: str) -> socket.socket:
    """A socket that may use SDP or TCP."""
    with namespace(host):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, uapi.IPPROTO_SDP)
    sock.settimeout(limits.seconds(20))
    return sock


@contextlib.contextmanager
def fallen_back(port: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection of a to a TCP server on b, and its end there."""
    with namespace("b"):
        server = socket.create_server((B.address(4), port))
    client = either("a")
    with server, client:
        client.connect((B.address(4), port))
        end, _ = server.accept()
        with end:
            yield client, end


def exchange(pair: traffic.Pair) -> None:
    """Sends so many bytes in each direction, and receives them."""
    pair.exchange(BYTES)

    def arrived() -> bool:
        return all(end.received == BYTES for end in pair.ends)

    traffic.run(pair.ends, arrived, limits.seconds(20), "bytes")


@scenario
def sdp_ss_tells_sdp_from_tcp() -> None:
    """A listener, a connection, one that fell back to TCP, one undecided: each is found."""
    with namespace("b"):
        listener = Listener(B.address(4))
    both = either("b")
    both.bind((B.address(4), 7011))
    both.listen(5)
    pair = traffic.connect(1)[0]
    undecided = either("a")
    with both, undecided, fallen_back(7012) as (client, end):
        exchange(pair)
        end.sendall(b"five!")
        limits.until(
            "bytes",
            limits.seconds(10),
            lambda: only("a", "transport", "tcp")["recv_q"] == 5,
        )
        row = only("a", "-p", "transport", "tcp")
        check(row["state"] == "ESTAB" and row["fallback"] == "ECONNREFUSED", f"{row}")
        check(row["peer"] == {"address": B.address(4), "port": 7012}, f"{row}")
        check(row["local"]["port"] == client.getsockname()[1], f"{row}")
        check(row["processes"][0]["pid"] == os.getpid(), f"{row}")
        check(row["inode"] == os.fstat(client.fileno()).st_ino, f"{row}")
        check(row["cookie"] == cookie(client), f"{row}")

        row = only("a", "state", "established", "transport", "sdp")
        sock = pair.client.stream.sock
        check(row["device"] == A.device, f"{row}")
        check((row["mode_send"], row["mode_receive"]) == ("Combined", "Combined"), f"{row}")
        check(row["traffic"]["bcopy_bytes_sent"] == BYTES, f"{row}")
        told = [n for (n,) in struct.iter_unpack("=Q", sock.getsockopt(socket.SOL_TCP, uapi.SDP_TRAFFIC, 1024))]
        check(sorted(row["traffic"].values()) == sorted(told), f"{row}\n{told}")
        check(row["flow"]["max_payload"] > 0 and row["cookie"] == cookie(sock), f"{row}")
        check("fallback" not in row and "end" not in row, f"{row}")

        row = only("b", "-l", "sport", "7011")
        check((row["transport"], row["send_q"]) == ("both", 5), f"{row}")
        row = only("b", "-l", "sport", str(listener.port))
        check((row["transport"], row["state"], row["recv_q"]) == ("sdp", "LISTEN", 0), f"{row}")
        row = only("a", "state", "unconn", "transport", "both")
        check(row["cookie"] == cookie(undecided), f"{row}")
        text = command("sdp_ss", "-anpei", host="a")
        for word in ("ECONNREFUSED", f'pid={os.getpid()}', f"{B.address(4)}:7012", "credits:"):
            check(word in text, f"no {word} in\n{text}")
    listener.close()
    traffic.finish([pair], limits.seconds(20))
    pair.close()


@ynl_scenario
def kernel_client_reads_the_specification() -> None:
    """The kernel's client for netlink specifications finds what sdp_ss finds, with all details."""
    pair = traffic.connect(1)[0]
    exchange(pair)
    with fallen_back(7013):
        shown = {row["cookie"]: row for row in rows("a", "-a")}
        answers = {answer["cookie"]: answer for answer in ynl.sockets("a", "flow", "traffic")}
        check(len(shown) == 2 and answers.keys() == shown.keys(), f"{shown}\n{answers}")
        for number, row in shown.items():
            answer = answers[number]
            for name in ("local", "peer"):
                place = {"address": answer[f"{name}-addr"], "port": answer[f"{name}-port"]}
                check(row[name] == place, f"{row}\n{answer}")
            check(answer["transport"] == row["transport"], f"{row}\n{answer}")
            check((answer["inode"], answer["uid"]) == (row["inode"], 0), f"{row}\n{answer}")
            check(answer.get("device") == row.get("device"), f"{row}\n{answer}")
        (tcp,) = (answer for answer in answers.values() if answer["transport"] == "tcp")
        check(tcp["reason"] == errno.ECONNREFUSED and "mode-send" not in tcp, f"{tcp}")
        sdp = answers[cookie(pair.client.stream.sock)]
        check(sdp["mode-send"] == "combined" and sdp["credits"] > 0, f"{sdp}")
        counted = {name.replace("-", "_"): n for name, n in sdp["traffic"].items()}
        check(counted == shown[sdp["cookie"]]["traffic"], f"{shown}\n{sdp}")
        check(counted["bcopy_bytes_sent"] == BYTES, f"{sdp}")
        brief = {answer["cookie"]: answer for answer in ynl.sockets("a")}[sdp["cookie"]]
        check("credits" not in brief and "traffic" not in brief, f"{brief}")
    pair.close()


@scenario
def sdp_ss_chooses_sockets() -> None:
    """By address, port, state and family; invalid filters are refused."""
    pairs = [traffic.connect(1)[0], traffic.connect(1, version=6)[0]]
    port = pairs[0].client.stream.names()[1][1]
    for words, count in (
        (["-4"], 1),
        (["-6"], 1),
        (["-l"], 0),
        ([], 2),
        (["dport", "=", f":{port}"], 1),
        (["dst", f"{B.address(4)}:{port}"], 1),
        (["dst", "10.0.0.0/24"], 1),
        (["dst", "fd00::/16"], 1),
        (["src", B.address(4)], 0),
        (["state", "closed"], 0),
    ):
        found = rows("a", *words)
        check(len(found) == count, f"{words}: {found}")
    for words in (["state", "nonsense"], ["dst", "10.0.0.1/99"], ["-N", "no-such-host"]):
        try:
            command("sdp_ss", *words)
        except Failure as failure:
            check("sdp_ss: " in str(failure), str(failure))
        else:
            raise Failure(f"sdp_ss {words} ended in order")
    # A reader that stops early.
    command("bash", "-c", "set -o pipefail; sdp_ss -a | true", host="a")
    for pair in pairs:
        pair.close()


# A family for which the harness kernels have no handler, so the kernel answers as it does if sdp.ko
# is too old to have one.
AF_KCM = 41


@scenario
def sdp_ss_reads_proc_of_a_module_without_netlink() -> None:
    """The connection is found in /proc/net/sdp, with a remark; transport and device are not known."""
    pair = traffic.connect(1)[0]
    request = struct.pack("=IHHIIB", 36, BY_FAMILY, REQUEST | DUMP, 0, 0, AF_KCM)
    inject = f"inject=sendto:poke_enter=@arg2={request.hex()}"
    done = subprocess.run(
        ["strace", "-o", "/dev/null", "-e", inject, "sdp_ss", "-N", "a", "-J"],
        capture_output=True,
        text=True,
        timeout=limits.seconds(30),
        check=False,
    )
    check(done.returncode == 0 and "no netlink interface" in done.stderr, f"{done}")
    (row,) = json.loads(done.stdout)
    sock = pair.client.stream.sock
    check(row["transport"] == "unknown" and "device" not in row, f"{row}")
    check((row["state"], row["inode"]) == ("ESTAB", os.fstat(sock.fileno()).st_ino), f"{row}")
    (address, port), (peer, peer_port) = pair.client.stream.names()
    check(row["local"] == {"address": address, "port": port}, f"{row}")
    check(row["peer"] == {"address": peer, "port": peer_port}, f"{row}")
    pair.close()


@scenario
def sdp_ss_shows_what_is_counted() -> None:
    """Counters of a namespace, and their increase in a second."""
    before: dict[str, int] = {}

    def are_the_same() -> bool:
        before.update(json.loads(command("sdp_ss", "-sJ", host="a")))
        # The page count covers the whole machine, and pages are released with a delay.
        steady = {name: n for name, n in leftovers.stats("a").items() if name != "memory_pages"}
        return steady.items() <= before.items()

    # The last messages of earlier connections may be counted between the two.
    limits.until("the same counters in sdp_ss", limits.seconds(10), are_the_same)
    stop = threading.Event()

    def connections() -> None:
        while not stop.is_set():
            traffic.works(size=1000)

    thread = threading.Thread(target=connections)
    thread.start()
    try:
        lines = command("sdp_ss", "-sJ", "-w", "2", "-c", "2", host="a").splitlines()
    finally:
        stop.set()
        thread.join()
    added = [json.loads(line) for line in lines]
    after = leftovers.stats("a")
    check(len(added) == 2 and all(one["active_opens"] > 0 for one in added), f"{added}")
    total = after["active_opens"] - before["active_opens"]
    check(sum(one["active_opens"] for one in added) <= total, f"{added}, {total} in all")


def _sums() -> list[dict[str, int]]:
    """The counters of both hosts, without the values that go up and down."""
    found = [leftovers.stats(host) for host in leftovers.HOSTS]
    return [{name: n for name, n in one.items() if name not in GAUGES} for one in found]


@scenario
def metrics_are_what_is_counted() -> None:
    """The file for node_exporter has each counter of each host, once."""
    traffic.works()
    script = checkout.TOP / "docs/sdp-metrics"
    with tempfile.TemporaryDirectory() as directory:
        seen: dict[str, counters.Counters] = {}

        def is_steady() -> bool:
            before = _sums()
            command(str(script), directory, "a", "b")
            seen.update({host: leftovers.stats(host) for host in leftovers.HOSTS})
            return _sums() == before

        # The last messages of the connection are counted after its programs have closed it.
        limits.until("steady counters", limits.seconds(20), is_steady)
        lines = (Path(directory) / "sdp.prom").read_text().splitlines()
        check(os.listdir(directory) == ["sdp.prom"], f"{os.listdir(directory)}")
    types = [line.split()[2] for line in lines if line.startswith("#")]
    check(len(types) == len(set(types)), "a type is given twice")
    found = dict(line.split() for line in lines if not line.startswith("#"))
    for host in leftovers.HOSTS:
        for name, value in seen[host].items():
            gauge = name in GAUGES
            metric = f'sdp_{name}{"" if gauge else "_total"}{{netns="{host}"}}'
            if name.startswith("copied_") and name.endswith("_bytes"):
                cause = name.removeprefix("copied_").removesuffix("_bytes")
                metric = f'sdp_copied_bytes_total{{cause="{cause}",netns="{host}"}}'
            check(gauge or found.get(metric) == str(value), f"{metric}: {found.get(metric)}")
            check(metric in found, metric)
    check(len(found) == sum(len(seen[host]) for host in leftovers.HOSTS), "a metric of neither host")


SOCK_DIAG = 4
BY_FAMILY = 20
REQUEST, DUMP = 1, 0x300


def ask(
    host: str, payload: bytes, flags: int = REQUEST | DUMP, kind: int = BY_FAMILY
) -> socket.socket:
    """Sends a request to the kernel; nothing is read yet."""
    with namespace(host):
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
    sock.settimeout(limits.seconds(20))
    sock.send(struct.pack("=IHHII", 16 + len(payload), kind, flags, 7, 0) + payload)
    return sock


def refused(host: str, payload: bytes, flags: int = REQUEST | DUMP, kind: int = BY_FAMILY) -> int:
    """The errno in the answer to a request."""
    with ask(host, payload, flags, kind) as sock:
        _, answer, _, _, _, error = struct.unpack_from("=IHHIIi", sock.recv(65536))
    return -error if answer in (2, 3) else 0


@scenario
def requests_that_make_no_sense_are_refused() -> None:
    """By their lengths, attributes and flags; readers that close early leave nothing."""
    head = bytes([27, 0, 0, 0])
    for payload, wanted in (
        (head[:2], errno.EINVAL),
        (head[:3], errno.EINVAL),
        (bytes([27, 6, 0, 0]), errno.EINVAL),
        (bytes([27, 0, 0, 1]), errno.EINVAL),
        # A length of zero, one too long, one too short for a number.
        (head + struct.pack("=HH", 0, 2), errno.EINVAL),
        (head + struct.pack("=HHI", 400, 2, 1), errno.EINVAL),
        (head + struct.pack("=HHH", 6, 2, 1) + bytes(2), errno.EINVAL),
        (head + struct.pack("=HHQ", 12, 3, 1), errno.EINVAL),
        # An unknown attribute, bit or use.
        (head + struct.pack("=HHI", 8, 999, 1), errno.EINVAL),
        (head + struct.pack("=HHI", 8, 4, 1), errno.EINVAL),
        (head + struct.pack("=HHI", 8, 3, 0x80), errno.EINVAL),
        (head + bytes(3), errno.EINVAL),
    ):
        check(refused("a", payload) == wanted, f"{payload.hex()}: {refused('a', payload)}")
    check(refused("a", head, REQUEST) == errno.EOPNOTSUPP, "no dump")
    check(refused("a", head, REQUEST | DUMP, 21) == errno.EOPNOTSUPP, "SOCK_DESTROY")
    pairs = traffic.connect(20)
    for _ in range(100):
        ask("a", head + struct.pack("=HHI", 8, 3, 3)).close()
    for pair in pairs:
        pair.close()


def seen(host: str) -> collections.Counter[int]:
    """The number of times that a dump shows each socket, by cookie."""
    return collections.Counter(row["cookie"] for row in rows(host, "-a"))


@scenario
def a_dump_goes_on_while_sockets_come_and_go() -> str:
    """A socket that exists all the time is shown once, despite changes of the table."""
    pairs = traffic.connect(40)
    kept = {cookie(pair.client.stream.sock) for pair in pairs}
    stop = threading.Event()

    def churn() -> None:
        held: list[socket.socket] = []
        with namespace("a"):
            while not stop.is_set():
                held.append(socket.socket(uapi.AF_INET_SDP, socket.SOCK_STREAM))
                if len(held) > 200:
                    for sock in held[::2]:
                        sock.close()
                    held = held[1::2]
        for sock in held:
            sock.close()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        most = 0
        for _ in range(5):
            found = seen("a")
            most = max(most, len(found))
            check(max(found.values()) == 1, "a socket is shown twice")
            check(kept <= set(found), "a socket is not shown")
            check(not set(seen("b")) & kept, "a socket of another namespace is shown")
    finally:
        stop.set()
        thread.join()
    for pair in pairs:
        pair.close()
    return f"up to {most} sockets"


TRACING = Path("/sys/kernel/tracing")


@contextlib.contextmanager
def traced() -> Iterator[Path]:
    """All events of the module, in a separate trace instance."""
    if not (TRACING / "events").exists():
        command("mount", "-t", "tracefs", "tracefs", str(TRACING))
    instance = TRACING / "instances" / "sdp"
    instance.mkdir()
    try:
        (instance / "events/sdp/enable").write_text("1")
        yield instance
    finally:
        (instance / "events/sdp/enable").write_text("0")
        instance.rmdir()


def events(instance: Path) -> dict[str, list[dict[str, str]]]:
    """The fields of all events so far, by event."""
    found: dict[str, list[dict[str, str]]] = collections.defaultdict(list)
    for line in (instance / "trace").read_text().splitlines():
        if ": sdp_" in line:
            name, _, text = line.partition(": sdp_")[2].partition(": ")
            fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
            fields["ends"] = " ".join(word for word in text.split() if word.startswith("["))
            found[name].append(fields)
    return found


def has(found: list[dict[str, str]], **fields: str) -> None:
    """At least one event has these fields."""
    wanted = fields.items()
    check(any(wanted <= one.items() for one in found), f"no {fields} in {found[:20]}")


@scenario
def trace_events_tell_what_happens() -> str:
    """States, paths, stalls, advertisements, fallbacks and ends, each with its fields."""
    with traced() as instance:
        pair = traffic.connect(1)[0]
        own = f"{cookie(pair.client.stream.sock):x}"
        client, server = (f"[::ffff:{e.address(4)}]:" for e in (A, B))
        ends = " ".join(
            f"{host}{name[1]}"
            for host, name in zip((client, server), pair.client.stream.names(), strict=True)
        )
        # Until the peer, which does not read, has granted all its credits.
        traffic.fill(pair.client.stream.sock)
        pair.close()
        with fallen_back(7012):
            pass
        with uncopied.lending():
            uncopied.transfer(os.urandom(4 << 20), 1 << 20, 40)
        leftovers.await_empty_tables()
        found = events(instance)
    has(found["state"], cookie=own, oldstate="CLOSE", newstate="SYN_SENT")
    has(found["state"], cookie=own, ends=ends, oldstate="SYN_SENT", newstate="ESTABLISHED")
    has(found["state"], oldstate="CLOSE", newstate="LISTEN")
    has(found["transmit"], cookie=own, ends=ends, path="copy")
    has(found["receive"], path="copy")
    uncopied_ways = {"read", "written", "written_copy"}
    for name in ("transmit", "receive"):
        ways = {one["path"] for one in found[name]}
        check(ways & uncopied_ways, f"{name}: {ways}")
    lives = {(one["kind"], one["what"]) for one in found["advert"]}
    check({("SrcAvail", "sent"), ("SrcAvail", "received")} <= lives, f"{lives}")
    has(found["stall"], cookie=own, ends=ends, **{"for": "credit"})
    has(found["fallback"], reason=str(errno.ECONNREFUSED))
    has(found["end"], end="reset", rule="")
    check(not events_are_on(), "events are still on")
    return ", ".join(f"{len(found[name])} {name}" for name in sorted(found))


def events_are_on() -> bool:
    """Whether any event of the module is enabled, in any instance."""
    return (TRACING / "events/sdp/enable").read_text().strip() != "0"
