# SPDX-License-Identifier: MIT
"""stress-ng's socket stressors, on the loopback addresses of one host."""

from __future__ import annotations

from sdptests.twohosts.lab import Case, Lab, Measured

STRESSORS = (
    ("sock", ("--sock", "2", "--sock-domain", "ipv4")),
    ("sock ipv6", ("--sock", "2", "--sock-domain", "ipv6")),
    ("sock mmsg", ("--sock", "2", "--sock-opts", "sendmmsg")),
    ("sockmany", ("--sockmany", "1")),
    ("sockabuse", ("--sockabuse", "1")),
    ("epoll", ("--epoll", "2", "--epoll-domain", "ipv4")),
    ("epoll ipv6", ("--epoll", "2", "--epoll-domain", "ipv6")),
)


def _case(name: str, options: tuple[str, ...]) -> Case:
    def run(lab: Lab) -> Measured:
        seconds = lab.amount(60, 5)
        command = ["stress-ng", *options, "--timeout", f"{seconds}s", "--verify", "--oom-avoid"]
        command += ["--temp-path", str(lab.directory)]
        lab.a.run(lab.wrapped(*command), timeout=20 * 60)
        # The minimum of sent bytes; it reports operations, of many sizes.
        return Measured(f"{seconds} s", lab.amount(1000, 100))

    return Case(f"stress-ng {name}", run)


def cases(_lab: Lab) -> list[Case]:
    """The cases of this program."""
    return [_case(name, options) for name, options in STRESSORS]
