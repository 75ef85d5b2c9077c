// SPDX-License-Identifier: MIT

//! The BPF program: it checks the arguments of socket(2) and changes the protocol.
//!
//! It is short, so it is written here instruction by instruction, and `sdp_run` can be built
//! without a BPF compiler.

use libc::{c_int, AF_INET, AF_INET6, IPPROTO_MPTCP, IPPROTO_TCP, SOCK_STREAM};
use sdp_uapi::IPPROTO_SDP;

/// The bits of the type; the flags that come with a socket's type are above them.
const SOCK_TYPE_MASK: c_int = 0xf;

/// `bpf_current_task_under_cgroup()`.
const TASK_UNDER_CGROUP: c_int = 37;

/// As a source register: the constant is the descriptor of a map.
const PSEUDO_MAP_FD: u8 = 1;

/// One instruction as the kernel reads it.
pub(crate) type Instruction = [u8; 8];

/// `bpf_get_current_task_btf()`.
const CURRENT_TASK: c_int = 158;

/// The bit of `task_struct.atomic_flags` that `prctl(PR_SET_NO_NEW_PRIVS)` sets.
const NO_NEW_PRIVS: c_int = 1;

/// The offset of the word in `task_struct` that has the flag no_new_privs.
#[derive(Clone, Copy)]
pub(crate) struct FlagsAt(pub(crate) i16);

/// Calls of `socket` by processes in the cgroup of the map `map` get `IPPROTO_SDP` if they ask for
/// a TCP stream. MPTCP is TCP too: since Go 1.24 every listener of a Go program asks for it, and such a
/// socket serves peers that have TCP alone. The value zero leaves a call unchanged. If `confined` is given, calls of processes
/// with no_new_privs are unchanged as well, because the kernel would refuse them the socket.
pub(crate) fn instructions(map: c_int, confined: Option<FlagsAt>) -> Vec<Instruction> {
    /// Argument `n` of the function, eight bytes each.
    const fn argument(n: i16) -> i16 {
        8 * n
    }
    let look: &[Instruction] = match confined {
        Some(FlagsAt(offset)) => &[
            instruction(0x85, 0, 0, 0, CURRENT_TASK),
            load(1, 0, offset),
            and(1, NO_NEW_PRIVS),
            jump_if_not_equal(1, 0, 2),
        ],
        None => &[],
    };
    // The instruction that leaves the call unchanged and ends the program.
    let leave = if confined.is_some() { 21 } else { 17 };
    let from = |place: i16| leave - place - 1;
    let mut code = vec![
        load(2, 1, argument(0)),
        jump_if_equal(2, AF_INET, 1),
        jump_if_not_equal(2, AF_INET6, from(2)),
        load(2, 1, argument(1)),
        and(2, SOCK_TYPE_MASK),
        jump_if_not_equal(2, SOCK_STREAM, from(5)),
        load(2, 1, argument(2)),
        jump_if_equal(2, 0, 2),
        jump_if_equal(2, IPPROTO_TCP, 1),
        jump_if_not_equal(2, IPPROTO_MPTCP, from(9)),
        // This instruction has the length of two.
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, map),
        instruction(0, 0, 0, 0, 0),
        set(2, 0),
        instruction(0x85, 0, 0, 0, TASK_UNDER_CGROUP),
        jump_if_not_equal(0, 1, from(14)),
    ];
    code.extend_from_slice(look);
    code.extend([set(0, IPPROTO_SDP), exit(), set(0, 0), exit()]);
    code
}

fn instruction(code: u8, destination: u8, source: u8, offset: i16, number: c_int) -> Instruction {
    let registers = if cfg!(target_endian = "little") {
        destination | (source << 4)
    } else {
        (destination << 4) | source
    };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    [code, registers, o0, o1, n0, n1, n2, n3]
}

fn load(destination: u8, source: u8, offset: i16) -> Instruction {
    instruction(0x79, destination, source, offset, 0)
}

/// 32 bits wide, like the three below: the upper half of an argument is undefined.
fn and(register: u8, number: c_int) -> Instruction {
    instruction(0x54, register, 0, 0, number)
}

fn jump_if_equal(register: u8, number: c_int, distance: i16) -> Instruction {
    instruction(0x16, register, 0, distance, number)
}

fn jump_if_not_equal(register: u8, number: c_int, distance: i16) -> Instruction {
    instruction(0x56, register, 0, distance, number)
}

fn set(register: u8, number: c_int) -> Instruction {
    instruction(0xb7, register, 0, 0, number)
}

fn exit() -> Instruction {
    instruction(0x95, 0, 0, 0, 0)
}

#[cfg(test)]
#[allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]
mod tests {
    use super::*;
    use libc::{AF_UNIX, IPPROTO_SCTP, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW};

    const MAP: c_int = 12;

    /// The state of the process.
    #[derive(Clone, Copy)]
    struct Process {
        in_cgroup: bool,
        confined: bool,
    }

    const PLAIN: Process = Process {
        in_cgroup: true,
        confined: false,
    };

    /// The address of the task, and the offset of its flags.
    const TASK: u64 = 0x1234_0000;
    const AT: i16 = 1096;

    fn run(family: c_int, kind: c_int, protocol: c_int, process: Process) -> u64 {
        let [looking, blind] = [Some(FlagsAt(AT)), None]
            .map(|at| outcome(&instructions(MAP, at), [family, kind, protocol], process));
        if !process.confined {
            assert_eq!(looking, blind);
        }
        looking
    }

    /// The result of a run with these arguments.
    fn outcome(code: &[Instruction], arguments: [c_int; 3], process: Process) -> u64 {
        // The upper half of an argument's register has an arbitrary value.
        let context = arguments.map(|argument| low(argument) | (0x5a5a << 32));
        let mut registers = [0_u64; 11];
        let mut at = 0;
        // There are no backward jumps, so each instruction runs at most once.
        for _ in code {
            let [operation, names, o0, o1, n0, n1, n2, n3] = code[at];
            let offset = isize::from(i16::from_ne_bytes([o0, o1]));
            let number = i32::from_ne_bytes([n0, n1, n2, n3]);
            let (to, from) = (usize::from(names & 0xf), usize::from(names >> 4));
            let equal = registers[to] & 0xffff_ffff == low(number);
            let mut distance = 1;
            match operation {
                0x79 if from == 0 => {
                    assert_eq!((registers[0], offset), (TASK, isize::from(AT)));
                    registers[to] = 0x5a5a_5a5a_5a5a_5a5a | u64::from(process.confined);
                }
                0x79 => {
                    assert_eq!(from, 1, "the context is in register 1");
                    registers[to] = context[usize::try_from(offset / 8).expect("forwards")];
                }
                0x54 => registers[to] &= low(number),
                0xb7 => registers[to] = low(number),
                0x16 if equal => distance += offset,
                0x56 if !equal => distance += offset,
                0x16 | 0x56 => {}
                0x18 => {
                    assert_eq!((from, number), (1, MAP));
                    registers[to] = low(number);
                    distance += 1;
                }
                0x85 => {
                    let asks_cgroup = number == TASK_UNDER_CGROUP;
                    if asks_cgroup {
                        assert_eq!((registers[1], registers[2]), (low(MAP), 0));
                    } else {
                        assert_eq!(number, CURRENT_TASK);
                    }
                    registers = [0xbad; 11];
                    registers[0] = if asks_cgroup {
                        u64::from(process.in_cgroup)
                    } else {
                        TASK
                    };
                }
                0x95 => return registers[0],
                unknown => panic!("instruction {unknown:#x}"),
            }
            at = at.checked_add_signed(distance).expect("forwards");
        }
        panic!("no end")
    }

    fn low(number: c_int) -> u64 {
        u64::from(u32::from_ne_bytes(number.to_ne_bytes()))
    }

    #[test]
    fn streams_of_tcp_become_sdp() {
        for family in [AF_INET, AF_INET6] {
            for flags in [0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK] {
                for protocol in [0, IPPROTO_TCP, IPPROTO_MPTCP] {
                    assert_eq!(run(family, SOCK_STREAM | flags, protocol, PLAIN), 257);
                }
            }
        }
    }

    #[test]
    fn whatever_else_is_left_alone() {
        for (family, kind, protocol) in [
            (AF_UNIX, SOCK_STREAM, 0),
            (27, SOCK_STREAM, 0),
            (-1, SOCK_STREAM, 0),
            (AF_INET, SOCK_DGRAM, 0),
            (AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0),
            (AF_INET, SOCK_RAW, IPPROTO_TCP),
            (AF_INET, SOCK_DGRAM, IPPROTO_MPTCP),
            (AF_INET, SOCK_STREAM, 256),
            (AF_INET, SOCK_STREAM, IPPROTO_SCTP),
            (AF_INET, SOCK_STREAM, IPPROTO_SDP),
            (AF_INET6, SOCK_STREAM, -1),
        ] {
            assert_eq!(run(family, kind, protocol, PLAIN), 0);
        }
    }

    #[test]
    fn processes_of_other_cgroups_are_left_alone() {
        for family in [AF_INET, AF_INET6] {
            let other = Process {
                in_cgroup: false,
                ..PLAIN
            };
            assert_eq!(run(family, SOCK_STREAM, 0, other), 0);
        }
    }

    #[test]
    fn processes_in_a_sandbox_are_left_alone_where_the_kernel_wants_it() {
        let confined = Process {
            confined: true,
            ..PLAIN
        };
        for family in [AF_INET, AF_INET6] {
            let call = [family, SOCK_STREAM, IPPROTO_TCP];
            let of = |at| outcome(&instructions(MAP, at), call, confined);
            assert_eq!(of(Some(FlagsAt(AT))), 0);
            assert_eq!(of(None), 257);
        }
    }
}
