// SPDX-License-Identifier: GPL-2.0

//! Lists of peers, as an administrator writes them: addresses and networks,
//! separated by spaces or commas.
//!
//! Contexts: any. No locks: only the owner reads a text.

use crate::{
    engine::types::Ip,
    prelude::*, //
};
use core::{
    ffi::CStr,
    net::IpAddr, //
};
use kernel::str::CStrExt;

/// Addresses that begin alike.
struct Network {
    ip: IpAddr,
    bits: u8,
}

/// Two addresses are compared in the longer form.
fn widen(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

impl Network {
    /// "10.0.0.2", "10.1.0.0/16", "fd00::/64".
    fn parse(word: &str) -> Option<Self> {
        let (ip, bits) = match word.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (word, None),
        };
        let ip: IpAddr = ip.parse().ok()?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).ok()?;
        (bits <= most).then_some(Self { ip, bits })
    }

    fn has(&self, ip: IpAddr) -> bool {
        let differs = widen(self.ip) ^ widen(ip);
        let rest = 128 - u32::from(self.bits);
        self.ip.is_ipv4() == ip.is_ipv4() && differs.checked_shr(rest).unwrap_or(0) == 0
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| c == ',' || c.is_ascii_whitespace();
    text.split(between).filter(|word| !word.is_empty())
}

/// Whether `ip` is in the list that `text` holds up to its first zero.
pub(super) fn has(text: &[u8], ip: Ip) -> bool {
    let text = CStr::from_bytes_until_nul(text).ok();
    let text = text.and_then(|text| text.to_str().ok()).unwrap_or("");
    let ip = IpAddr::from(ip);
    words(text)
        .filter_map(Network::parse)
        .any(|network| network.has(ip))
}

/// Whether a text is a list.
///
/// # Safety
///
/// `text` ends with a zero.
pub(crate) unsafe extern "C" fn check_cb(text: *const c_char) -> bool {
    // SAFETY: It ends with a zero, by the caller's promise, and is the caller's alone: the
    // text that is written, before it gets to the knobs.
    let text = unsafe { CStr::from_char_ptr(text) };
    text.to_str()
        .is_ok_and(|text| words(text).all(|word| Network::parse(word).is_some()))
}

#[kunit_tests(sdp_peers)]
mod tests {
    use super::*;

    const FOUR: Ip = Ip::V4([10, 1, 2, 3]);
    const SIX: Ip = Ip::V6([0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9]);

    fn is_list(text: &CStr) -> bool {
        // SAFETY: It ends with a zero.
        unsafe { check_cb(text.as_char_ptr()) }
    }

    #[test]
    fn a_network_has_what_begins_like_it() {
        for text in [
            c"10.1.2.3",
            c"10.1.0.0/16",
            c"0.0.0.0/0",
            c"::1, 10.1.2.2/31",
        ] {
            assert!(has(text.to_bytes_with_nul(), FOUR));
        }
        for text in [
            c"",
            c"10.1.2.4",
            c"10.1.2.3/x",
            c"10.2.0.0/16",
            c"::/0",
            c"::ffff:10.1.2.3",
        ] {
            assert!(!has(text.to_bytes_with_nul(), FOUR));
        }
        for text in [c"fd00:0:0:1::/64", c"fd00:0:0:1::9", c"::/0"] {
            assert!(has(text.to_bytes_with_nul(), SIX));
        }
        for text in [c"fd00:0:0:2::/64", c"0.0.0.0/0", c"fd00:0:0:1::8/128"] {
            assert!(!has(text.to_bytes_with_nul(), SIX));
        }
    }

    #[test]
    fn nothing_behind_the_first_zero_counts() {
        assert!(!has(b"\x0010.1.2.3\0", FOUR));
        assert!(!has(b"10.1.2.3", FOUR));
    }

    #[test]
    fn a_list_is_of_networks_alone() {
        for text in [
            c"",
            c" , ",
            c"10.0.0.1",
            c"10.0.0.0/8,fd00::/8\n",
            c"::/128 0.0.0.0/32",
        ] {
            assert!(is_list(text));
        }
        for text in [
            c"a",
            c"10.0.0.1/33",
            c"::/129",
            c"10.0.0",
            c"10.0.0.1/",
            c"10.0.0.1/-1",
            c"\xff",
        ] {
            assert!(!is_list(text));
        }
    }
}
