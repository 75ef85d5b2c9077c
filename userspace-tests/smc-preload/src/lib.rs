// SPDX-License-Identifier: MIT

//! TCP programs over SMC, for benches: `socket()` makes an SMC socket where the program asks for TCP.
//!
//! smc-tools has the same as `smc_run`, but Debian does not have smc-tools. An SMC socket negotiates
//! SMC-R or SMC-D during the handshake of TCP, and is TCP otherwise.

use libc::{c_int, AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM};

/// The lower bits of the second argument of socket(2); flags are above them.
const KIND: c_int = 0xf;
/// include/linux/socket.h
const AF_SMC: c_int = 43;
/// include/uapi/linux/smc.h
const SMC_OVER_IPV4: c_int = 0;
const SMC_OVER_IPV6: c_int = 1;

/// The family and the protocol to ask the kernel for.
fn replaced(family: c_int, kind: c_int, protocol: c_int) -> (c_int, c_int) {
    let tcp = kind & KIND == SOCK_STREAM && matches!(protocol, 0 | IPPROTO_TCP);
    match family {
        AF_INET if tcp => (AF_SMC, SMC_OVER_IPV4),
        AF_INET6 if tcp => (AF_SMC, SMC_OVER_IPV6),
        _ => (family, protocol),
    }
}

/// socket(2)
#[no_mangle]
pub extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let (family, protocol) = replaced(family, kind, protocol);
    // SAFETY: Any arguments are permitted. A descriptor and an error fit into an int.
    unsafe { libc::syscall(libc::SYS_socket, family, kind, protocol) as c_int }
}

#[cfg(test)]
mod tests {
    use super::{replaced, AF_SMC};
    use libc::{
        AF_INET, AF_INET6, AF_UNIX, IPPROTO_SCTP, IPPROTO_TCP, SOCK_CLOEXEC, SOCK_DGRAM,
        SOCK_STREAM,
    };

    #[test]
    fn tcp_sockets_become_smc_sockets() {
        assert_eq!(replaced(AF_INET, SOCK_STREAM, 0), (AF_SMC, 0));
        let flagged = SOCK_STREAM | SOCK_CLOEXEC;
        assert_eq!(replaced(AF_INET6, flagged, IPPROTO_TCP), (AF_SMC, 1));
    }

    #[test]
    fn other_sockets_stay() {
        let sctp = (AF_INET, SOCK_STREAM, IPPROTO_SCTP);
        for (family, kind, protocol) in [(AF_UNIX, SOCK_STREAM, 0), (AF_INET, SOCK_DGRAM, 0), sctp]
        {
            assert_eq!(replaced(family, kind, protocol), (family, protocol));
        }
    }
}
