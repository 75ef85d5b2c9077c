// SPDX-License-Identifier: MIT

//! The silence of peers that this host remembers: until it is forgotten, a connect() that may use TCP does not
//! ask them for SDP.

use std::fs;
use std::net::SocketAddr;

use crate::remembered_peer::{Peer, PATH};

/// A sentence for each user that has found one of these addresses silent.
pub(crate) fn silent(addresses: &[SocketAddr]) -> Vec<String> {
    // An older module remembers nothing.
    let text = fs::read_to_string(PATH).unwrap_or_default();
    sentences(&text, addresses)
}

fn sentences(text: &str, addresses: &[SocketAddr]) -> Vec<String> {
    text.lines()
        .filter_map(Peer::parse)
        .filter(Peer::is_silent)
        .filter(|found| addresses.iter().any(|address| address.ip() == found.peer))
        .map(|Peer { uid, peer, seconds, .. }| {
            format!(
                "{peer} was silent when user {uid} asked it for SDP. For {seconds} more seconds, or until it \
                 connects to this host, that user's sockets that may use TCP use it at once"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_the_host_is_told() {
        let text = "7 10.0.0.1 10.0.0.2 silent 43\n8 10.0.0.1 10.0.0.2 sdp 500\n7 10.0.0.1 10.0.0.3 silent 9\n";
        let address: SocketAddr = ([10, 0, 0, 2], 80).into();
        let found = sentences(text, &[address]);
        assert_eq!(found.len(), 1);
        let begin = "10.0.0.2 was silent when user 7 asked it for SDP. For 43 more";
        assert!(found.iter().all(|sentence| sentence.starts_with(begin)));
        assert_eq!(sentences("nonsense\n", &[address]), Vec::<String>::new());
    }
}
