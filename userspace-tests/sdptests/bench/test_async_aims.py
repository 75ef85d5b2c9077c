# SPDX-License-Identifier: MIT
"""The aims of asynchronous zero copy."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from unittest import mock

from sdptests.bench import async_aims as aims
from sdptests.bench import async_plots, experiments
from sdptests.bench.async_aims import BLOCK, COPIES, COPY, TCP, ZCOPY, Section
from sdptests.bench.experiments import Experiment
from sdptests.bench.flow_programs import Bound, Program, Task, units_per_us
from sdptests.bench.flows import Flows
from sdptests.bench.streams import MIB, Rate
from sdptests.bench.table import KIB, Row
from sdptests.twohosts.failure import Failure


def section(experiment: Experiment, rates: Mapping[str, Sequence[float]], lent: int = 0) -> Section:
    """The same rates in all columns, by round."""
    rows = {
        way: Row(
            way,
            rounds=[
                {column: Rate(rate, {}, MIB, MIB, lent) for column in experiment.columns}
                for rate in rounds
            ],
        )
        for way, rounds in rates.items()
    }
    return Section("rlo", "rlo", experiment, rows)


def verdicts(*sections: Section) -> dict[str, str]:
    """By the end of the description."""
    return {line.what.partition(": ")[2]: line.verdict for line in aims.lines(sections)}


class Aims(unittest.TestCase):
    """Ratios and verdicts."""

    def test_a_stream_is_judged_at_sizes_of_the_middle(self) -> None:
        """Beside blocking zero copy in the same round."""
        sizes = (32 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB)
        rates = {
            COPIES: [9] * 5,
            ZCOPY: [10, 5, 5, 5, 5],
            COPY: [14, 7, 7, 7, 7],
            BLOCK: [14, 6, 6, 6, 6],
        }
        undecided = "NOT MET: undecided"
        self.assertEqual(
            verdicts(section(experiments.throughput(sizes, 8), rates)),
            {
                "stream of 64K, AZ copy-on-write of zero copy": "met",
                "stream of 256K, AZ copy-on-write of zero copy": "met",
                "stream of 64K, AZ block-on-write of zero copy": undecided,
                "stream of 256K, AZ block-on-write of zero copy": undecided,
            },
        )

    def test_a_computing_sender_is_judged_where_both_take_as_long(self) -> None:
        """The other amounts do not count."""
        experiment = experiments.overlap(64 * KIB, 8, 200.0, 50.0)
        self.assertEqual(list(experiment.columns), [0, 50, 100, 200, 400, 800])
        self.assertEqual(experiment.task(200).units, 10_000)
        one = section(experiment, {ZCOPY: [10] * 5, COPY: [12] * 5, BLOCK: [12] * 5})
        for found in one.rows[COPY].rounds:
            found[200] = Rate(19, {}, MIB)
        self.assertEqual(
            verdicts(one),
            {
                "computing sender of 64K, AZ copy-on-write of zero copy": "met",
                "computing sender of 64K, AZ block-on-write of zero copy": "NOT MET",
            },
        )

    def test_the_better_way_is_copies_or_zero_copy(self) -> None:
        """TCP is none of them, and each window counts."""
        rates: dict[str, list[float]] = {
            COPIES: [10] * 5,
            ZCOPY: [8] * 5,
            COPY: [9.5] * 5,
            BLOCK: [9.5] * 5,
            TCP: [50] * 5,
        }
        one, other = (section(experiments.faults(size), rates) for size in (64 * KIB, 256 * KIB))
        for found in other.rows[BLOCK].rounds:
            found[2] = Rate(5, {}, MIB)
        lines = {line.what: line for line in aims.lines([one, other])}
        met = lines["rlo: AZ copy-on-write of the better way, buffers written to"]
        self.assertEqual(met.verdict, "met")
        missed = lines["rlo: AZ block-on-write of the better way, buffers written to"]
        self.assertEqual(missed.verdict, "NOT MET")
        self.assertIn("9 of 10, 0 undecided; least 2 x 256K: 0.50", missed.value)


class Figures(unittest.TestCase):
    """What is made of a rate."""

    def test_a_latency_is_half_of_a_round_trip(self) -> None:
        """64 KiB at 125 MiB/s take 500 us to and fro."""
        one = section(experiments.latency([64 * KIB]), {ZCOPY: [125.0]})
        found = one.one_way_us(one.rows[ZCOPY], 64 * KIB)
        assert found is not None
        self.assertEqual(found.median, 250)

    def test_progress_is_the_part_of_the_time_in_which_a_sender_computes(self) -> None:
        """400 us of each 1000."""
        experiment = experiments.overlap(64 * KIB, 8, 400.0, 1.0)
        one = section(experiment, {ZCOPY: [62.5]})
        found = one.progress(one.rows[ZCOPY], 400)
        assert found is not None
        self.assertAlmostEqual(found.median, 0.4)

    def test_several_connections_share_a_rate(self) -> None:
        """Each message takes as much longer."""
        one = section(experiments.connections((1, 4), 8), {ZCOPY: [125.0]})
        self.assertEqual(one.message_us(125.0, 4), 4 * one.message_us(125.0, 1))

    def test_lending_that_does_not_happen_is_a_failure(self) -> None:
        """Above the least length; below it there is none."""
        rates = {COPY: [10.0], BLOCK: [10.0]}
        aims.check_lending(section(experiments.throughput((32 * KIB, 64 * KIB), 8), rates, lent=1))
        aims.check_lending(section(experiments.throughput((32 * KIB,), 8), rates))
        aims.check_lending(section(experiments.faults(64 * KIB), rates))
        failed = section(experiments.throughput((64 * KIB,), 8), {COPY: [], BLOCK: []})
        aims.check_lending(failed)
        with self.assertRaisesRegex(Failure, "AZ copy-on-write has lent nothing of 64K"):
            aims.check_lending(section(experiments.throughput((64 * KIB,), 8), rates))

    def test_each_section_of_a_link_has_a_file_of_its_own(self) -> None:
        """Otherwise one figure would replace another."""
        all_kinds = [
            experiments.throughput([4096], 8),
            experiments.latency([4096]),
            *(experiments.overlap(size, 8, 100.0, 1.0) for size in experiments.SIZES),
            *(experiments.faults(size) for size in experiments.SIZES),
            experiments.connections((1, 2), 8),
        ]
        names = {async_plots.file_name(section(one, {ZCOPY: [1.0]})) for one in all_kinds}
        self.assertEqual(len(names), len(all_kinds))
        self.assertEqual({one.kind for one in all_kinds}, set(experiments.KINDS))


class Ends(unittest.TestCase):
    """What the programs are told, and what is made of their times."""

    def test_both_ends_get_their_parts_of_a_task(self) -> None:
        """The sender uses the buffers, the receiver one of its own."""
        program = mock.Mock(spec=Program)
        task = Task(4096, units=7, buffers=3, fills=True)
        for verb, buffers in (("send", 3), ("receive", 1)):
            Bound(program, verb, task, buffers).order(task.size, 20)
        told = [call.args[0] for call in program.say.call_args_list]
        self.assertEqual(told, ["send 4096 20 7 3 1", "receive 4096 20 7 1 1"])

    def test_the_fastest_computation_counts(self) -> None:
        """One that something else has disturbed says nothing of the program."""
        times = iter([0.05, 0.2, 0.3, 0.1, 0.4, 0.3, 0.3])
        with (
            mock.patch("sdptests.bench.flow_programs.namespaces", return_value=(mock.MagicMock(), None)),
            mock.patch("sdptests.bench.flow_programs.computing", lambda *_: next(times)),
        ):
            self.assertAlmostEqual(units_per_us(0.1), 20_000 / 0.1 / 1e6)

    def test_the_time_of_a_turn_ends_with_the_last_byte_or_the_answer(self) -> None:
        """The sender's end may be much earlier than the receiver's, or later."""
        sender, receiver = mock.Mock(), mock.Mock()
        sender.times.return_value, receiver.times.return_value = (1.0, 2.0), (0.5, 5.0)
        for answered, mib_per_s in ((False, 0.25), (True, 1.0)):
            flow = Flows([sender], [receiver], lambda: 0, answered=answered)
            with mock.patch.object(flow, "_enough", return_value=1):
                self.assertEqual(flow.rate_alone(MIB, 1.0).mib_per_s, mib_per_s)

    def test_there_are_as_many_messages_as_the_experiment_needs(self) -> None:
        """Also where fewer take as long as a measurement."""
        sender, receiver = mock.Mock(), mock.Mock()
        sender.times.return_value = receiver.times.return_value = (1.0, 2.0)
        Flows([sender], [receiver], lambda: 0, least=256).rate_alone(4096, 0.1)
        self.assertEqual(sender.order.call_args.args, (4096, 256))


if __name__ == "__main__":
    unittest.main()
