// SPDX-License-Identifier: MIT

//! The names of the devices that belong to a bridge.
//!
//! All devices of the machine have different names, and the bridges of different namespaces may have
//! the same. So the name has the namespace of the bridge as well, unless it is the machine's first. A
//! port is the interface's number: nothing in a container can change it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The inode of the first network namespace (`NET_NS_INIT_INO` of `linux/nsfs.h`).
const FIRST: u64 = 0xEFFF_FFF9;

#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    /// Of the bridge with this name in the namespace of the caller.
    pub(crate) fn of(bridge: &str) -> io::Result<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self::in_namespace(namespace, bridge))
    }

    fn in_namespace(namespace: u64, bridge: &str) -> Self {
        let prefix = match namespace {
            FIRST => format!("rlo-{bridge}-"),
            other => format!("rlo-{other}-{bridge}-"),
        };
        Self { prefix }
    }

    /// The file that the only daemon of the bridge has locked.
    pub(crate) fn lock(&self) -> String {
        format!("/run/{}lock", self.prefix)
    }

    pub(crate) fn device(&self, port: u32) -> String {
        format!("{}{port}", self.prefix)
    }

    /// The port in the name of a device, if the device belongs to the bridge.
    pub(crate) fn port(&self, device: &str) -> Option<u32> {
        let port = device.strip_prefix(&self.prefix)?.parse().ok()?;
        (self.device(port) == device).then_some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_by_its_own_bridge_alone() {
        let podman = Names::in_namespace(FIRST, "podman0");
        assert_eq!(podman.device(7), "rlo-podman0-7");
        assert_eq!(podman.port("rlo-podman0-7"), Some(7));
        for other in [
            "rlo-podman0-",
            "rlo-podman0-7-8",
            "rlo-podman0-+7",
            "rlo-podman0-07",
            "rlo0",
        ] {
            assert_eq!(podman.port(other), None, "{other}");
        }
        let rootless = Names::in_namespace(4_026_532_177, "podman0");
        assert_eq!(rootless.device(7), "rlo-4026532177-podman0-7");
        assert_eq!(podman.port("rlo-4026532177-podman0-7"), None);
        assert_eq!(rootless.port("rlo-podman0-7"), None);
        let shorter = Names::in_namespace(FIRST, "br");
        assert_eq!(
            shorter.port(&Names::in_namespace(FIRST, "br-1").device(7)),
            None
        );
    }

    #[test]
    fn the_longest_name_is_one_of_a_device() {
        let longest = Names::in_namespace(u64::from(u32::MAX), "fifteen-letters");
        assert!(longest.device(u32::MAX).len() < 64);
    }
}
