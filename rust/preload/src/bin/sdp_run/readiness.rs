// SPDX-License-Identifier: MIT

//! systemd's question when a service is ready, for units of `Type=notify`: see sd_notify(3).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager that the service is ready, if there is a manager that waits for it.
pub(crate) fn tell() -> io::Result<()> {
    match env::var_os("NOTIFY_SOCKET") {
        Some(address) => tell_at(&address),
        None => Ok(()),
    }
}

fn tell_at(address: &OsStr) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(address),
    }?;
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn a_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let name = format!("sdp_run-ready-{}", std::process::id());
        let path = env::temp_dir().join(&name);
        let by_path = SocketAddr::from_pathname(&path).expect("a short path");
        let by_name = SocketAddr::from_abstract_name(&name).expect("a short name");
        for (address, text) in [
            (by_path, path.clone().into_os_string()),
            (by_name, format!("@{name}").into()),
        ] {
            let manager = UnixDatagram::bind_addr(&address).expect("the address is free");
            tell_at(&text).expect("the manager is there");
            let mut said = [0; 32];
            let length = manager.recv(&mut said).expect("it was sent");
            assert_eq!(said.get(..length), Some(&b"READY=1"[..]));
        }
        std::fs::remove_file(&path).expect("it was bound");
        assert!(tell_at(path.as_os_str()).is_err());
    }
}
