# SPDX-License-Identifier: MIT
"""Tests of the programs' judge."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from sdptests.apps import transfer
from sdptests.twohosts import counters, foreign, proof, report, runner
from sdptests.twohosts.failure import Failure
from sdptests.twohosts.hosts import Host
from sdptests.twohosts.lab import APPS, Case, Lab, Measured

HERE = Host("here", "127.0.0.1", "::1", ())
# Says that it has carried 100 bytes.
CARRIED = Case("case", lambda _lab: Measured("1 MB/s", 100))


class Counting(unittest.TestCase):
    """Parsing of counters."""

    def test_lines_are_names_and_values(self) -> None:
        """Headings and empty lines are skipped."""
        text = "sdp statistics\n\nbcopy_bytes_sent 12\nEstablished: 3\nresets_sent\t0\n"
        self.assertEqual(
            counters.parse(text), {"bcopy_bytes_sent": 12, "Established": 3, "resets_sent": 0}
        )

    def test_only_bytes_of_the_stream_count_as_payload(self) -> None:
        """Messages and resets have such names as well, but are no bytes."""
        changes = {"bcopy_bytes_sent": 5, "zcopy_bytes_sent": 7, "resets_sent": 9}
        self.assertEqual(counters.sent_bytes(changes), 12)
        self.assertEqual(counters.received_bytes({"bcopy_bytes_received": 4, **changes}), 4)

    def test_only_what_changed_is_a_difference(self) -> None:
        """Including new counters, without gauges."""
        before = {"x": 1, "y": 2, "memory_pages": 3}
        after = {"x": 1, "y": 5, "z": 1, "memory_pages": 6500, "established": 2}
        self.assertEqual(counters.difference(before, after), {"y": 3, "z": 1})


class LeavingOut(unittest.TestCase):
    """Foreign tests that are skipped."""

    def read(self, text: str) -> list[foreign.Skip]:
        """The skips in a list with this text."""
        with tempfile.NamedTemporaryFile("w", suffix=".skips") as file:
            file.write(text)
            file.flush()
            return foreign.skips(Path(file.name))

    def test_a_line_is_a_test_and_its_reason(self) -> None:
        """Comments and empty lines are skipped."""
        found = self.read("# about\n\n*UDP* # not here\ntest_x   # as before\n")
        self.assertEqual(
            found, [foreign.Skip("*UDP*", "not here"), foreign.Skip("test_x", "as before")]
        )

    def test_nothing_is_left_out_without_a_reason(self) -> None:
        """Nor without a name."""
        for text in ("test_x\n", "test_x #\n", "  # a reason\n"):
            with self.assertRaises(SystemExit):
                self.read(text)

    def test_tests_leave_themselves_out_with_words_that_are_expected(self) -> None:
        """The pattern consists of all words, and is not the name of a test."""
        with tempfile.NamedTemporaryFile("w", suffix=".skips") as file:
            file.write("test_x # not here\nsays 'no (ifs|buts) \\(issue #1\\)' # other systems\n")
            file.flush()
            said = foreign.declines(Path(file.name))
            self.assertEqual([skip.test for skip in foreign.skips(Path(file.name))], ["test_x"])
        self.assertTrue(said.has("'no buts (issue #1)'"))
        for other in ("", "no buts", "test_x", "'no buts (issue #1)' and more"):
            self.assertFalse(said.has(other), other)

    def test_every_list_here_can_be_read(self) -> None:
        """No name occurs twice."""
        for path in APPS.glob("*.skips"):
            foreign.declines(path)
            names = [skip.test for skip in foreign.skips(path)]
            self.assertEqual(len(names), len(set(names)), path)


class Proving(unittest.TestCase):
    """A case passes only if the counters confirm it."""

    def outcome(
        self, case: Case, *readings: counters.Counters, by_tcp: int = 0, patience: int = 0
    ) -> proof.Outcome:
        """Runs a case with these counters of both hosts, before and after, perhaps repeatedly."""
        lab = Lab(HERE, HERE, "sdp", True, Path("/nonexistent"))
        with (
            mock.patch.object(counters, "read", side_effect=readings),
            mock.patch.object(counters, "SETTLED", patience),
            mock.patch.object(counters, "accepted_by_tcp", side_effect=(3, 4, 3, 4 + by_tcp)),
        ):
            return proof.run(case, lab)

    def test_bytes_that_the_counters_have_seen_went_over_sdp(self) -> None:
        """One host sent the bytes, the other received them."""
        outcome = self.outcome(
            CARRIED,
            {"bcopy_bytes_sent": 10},
            {"bcopy_bytes_received": 10},
            {"bcopy_bytes_sent": 110},
            {"bcopy_bytes_received": 110},
        )
        self.assertTrue(outcome.ok)
        self.assertEqual(outcome.path, "SDP")

    def test_bytes_that_are_counted_a_moment_later_went_over_sdp(self) -> None:
        """A connection that has ended is counted behind its program's end."""
        outcome = self.outcome(
            CARRIED,
            {},
            {},
            {"bcopy_bytes_sent": 60},
            {"bcopy_bytes_received": 100},
            {"bcopy_bytes_sent": 100},
            {"bcopy_bytes_received": 100},
            patience=60,
        )
        self.assertEqual((outcome.ok, outcome.path), (True, "SDP"), outcome.reason)

    def test_bytes_that_went_another_way_are_a_failure(self) -> None:
        """The program succeeded, but over TCP."""
        still = {"bcopy_bytes_sent": 10, "bcopy_bytes_received": 10}
        outcome = self.outcome(CARRIED, still, still, still, still)
        self.assertFalse(outcome.ok)
        self.assertEqual(outcome.path, "TCP")

    def test_bytes_that_only_left_are_a_failure(self) -> None:
        """No host has received the bytes."""
        outcome = self.outcome(
            CARRIED,
            {"bcopy_bytes_sent": 0},
            {},
            {"bcopy_bytes_sent": 100},
            {},
        )
        self.assertFalse(outcome.ok)

    def test_more_connections_by_tcp_are_a_failure(self) -> None:
        """The bytes alone would be enough, but too many connections used TCP."""
        for by_tcp, good in ((2, True), (3, False)):
            outcome = self.outcome(
                CARRIED,
                {"bcopy_bytes_sent": 0},
                {"bcopy_bytes_received": 0, "passive_opens": 5},
                {"bcopy_bytes_sent": 100},
                {"bcopy_bytes_received": 100, "passive_opens": 7},
                by_tcp=by_tcp,
            )
            self.assertEqual(outcome.ok, good, outcome.reason)

    def test_a_case_without_bytes_took_no_way(self) -> None:
        """Nothing is said of it."""
        outcome = self.outcome(Case("case", lambda _lab: Measured("said", 0)), {}, {}, {}, {}, by_tcp=1)
        self.assertEqual((outcome.ok, outcome.path), (True, "-"))

    def test_a_case_that_fails_says_why(self) -> None:
        """For all counters."""

        def fail(_lab: Lab) -> Measured:
            raise Failure("this is why")

        outcome = self.outcome(Case("case", fail), {}, {})
        self.assertFalse(outcome.ok)
        self.assertEqual(outcome.reason, "this is why")


class Telling(unittest.TestCase):
    """The output of an outcome."""

    def test_a_row_names_the_device(self) -> None:
        """Between path and result, and no blank at its end."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), mock.patch.object(report, "say", print):
            table = report.Table()
            table.begin(["a program"])
            table.add(proof.Outcome("a program", True, "SDP", "1 us", "", "", "rlo"))
        heading, _line, row = out.getvalue().splitlines()
        self.assertEqual(row.split(), ["a", "program", "SDP", "rlo", "1", "us"])
        self.assertEqual(row.index("rlo"), heading.index("device"))

    def test_rounds_run_in_their_order_each_on_its_device(self) -> None:
        """The device is changed before the cases, and leftovers are checked over SDP only."""
        used: list[str] = []
        program = mock.Mock(cases=lambda _lab: [Case("x", lambda _lab: Measured("-", 0))])
        rounds = [runner.Round([program], "tcp"), runner.Round([program], "sdp", "rlo")]
        told: list[proof.Outcome] = []
        seen = mock.Mock(begin=lambda names: used.extend(names), add=told.append)
        gone = proof.Outcome(proof.NOTHING_LEFT, True, "-", "-", "", "")
        with (
            mock.patch.object(runner, "namespaces", lambda: (HERE, HERE)),
            mock.patch.object(runner.device, "use", used.append),
            mock.patch.object(runner.proof, "run", lambda case, _lab: replace(gone, name=case.name)),
            mock.patch.object(runner.proof, "nothing_left", lambda _lab: gone),
            self.assertRaises(SystemExit) as end,
        ):
            runner.play(rounds, seen, small=True)
        self.assertEqual(end.exception.code, 0)
        self.assertEqual(used, ["x", "x", proof.NOTHING_LEFT, "rlo"])
        self.assertEqual([one.name for one in told], ["x", "x", proof.NOTHING_LEFT])


class Running(unittest.TestCase):
    """Commands and servers."""

    def test_a_failing_command_shows_its_last_words(self) -> None:
        """And its exit status."""
        with self.assertRaisesRegex(Failure, r"status 3\n(?:.*\n)*last words"):
            HERE.run(["sh", "-c", "echo last words >&2; exit 3"])

    def test_a_command_that_is_not_there_is_named(self) -> None:
        """Instead of a traceback."""
        with self.assertRaisesRegex(Failure, "no-such-program is not installed"):
            HERE.run(["no-such-program"])

    def test_a_command_that_hangs_is_ended(self) -> None:
        """After its time limit."""
        with self.assertRaisesRegex(Failure, "did not end"):
            HERE.run(["sleep", "1000"], timeout=0.1)

    def test_a_server_is_waited_for_and_stopped(self) -> None:
        """Its port is the one that it printed."""
        with HERE.start(["sh", "-c", "echo listening 42; exec cat"], ready=r"ing (\d+)") as server:
            self.assertEqual(server.number(), 42)
        self.assertIsNotNone(server.process.poll())

    def test_a_server_that_ends_too_early_is_a_failure(self) -> None:
        """With its output."""
        with self.assertRaisesRegex(Failure, "no such address"):
            HERE.start(["sh", "-c", "echo no such address"], ready="listening")

    def test_the_stream_endpoint_refuses_what_it_does_not_know(self) -> None:
        """With a clear error message only."""
        endpoint = APPS / "endpoints" / "stream"
        done = HERE.run([str(endpoint), "receive", "--family", "x"], may_fail=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--family", done.stderr)

    def test_a_stream_over_tcp_arrives_as_it_was_sent(self) -> None:
        """The endpoints, with all odd sizes."""
        with tempfile.TemporaryDirectory() as directory:
            lab = Lab(HERE, HERE, "tcp", True, Path(directory))
            measured = transfer.stream(lab, HERE, HERE, "127.0.0.1", 5_000_000, "--odd")
        self.assertEqual(measured.payload, 5_000_000)


if __name__ == "__main__":
    unittest.main()
