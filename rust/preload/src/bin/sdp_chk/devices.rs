// SPDX-License-Identifier: MIT

//! The RDMA devices in /sys: do any exist, are their ports up, and which network interfaces belong
//! to them?

use crate::report::Report;
use std::fs;
use std::path::Path;

/// A port as /sys shows it.
#[derive(Debug, PartialEq, Eq)]
struct Port {
    name: String,
    /// The device's type: `1: CA`, or `4: RNIC` for iWARP.
    node_type: String,
    /// For example `4: ACTIVE`.
    state: String,
    link_layer: String,
    /// The interfaces of its GIDs.
    interfaces: Vec<String>,
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn line(file: &Path) -> String {
    fs::read_to_string(file)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn ports(class: &Path) -> Vec<Port> {
    let devices = class.join("infiniband");
    let mut found = Vec::new();
    for device in entries(&devices) {
        let node_type = line(&devices.join(&device).join("node_type"));
        let directory = devices.join(&device).join("ports");
        for number in entries(&directory) {
            let port = directory.join(&number);
            let behind = port.join("gid_attrs/ndevs");
            // An empty GID has no interface: reading it fails.
            let mut interfaces: Vec<String> = entries(&behind)
                .iter()
                .map(|index| line(&behind.join(index)))
                .filter(|name| !name.is_empty())
                .collect();
            interfaces.dedup();
            found.push(Port {
                name: format!("{device} port {number}"),
                node_type: node_type.clone(),
                state: line(&port.join("state")),
                link_layer: line(&port.join("link_layer")),
                interfaces,
            });
        }
    }
    found
}

/// Reports the devices below `sys` and returns the number of their ports. A fault of one device is
/// only a note if another device can be used.
pub(crate) fn check(report: &mut Report, sys: &Path) -> usize {
    let class = &sys.join("class");
    let ports = ports(class);
    if ports.is_empty() {
        report.bad("there is no RDMA device", &absence(sys));
    }
    let described: Vec<_> = ports.iter().map(|port| describe(port, class)).collect();
    let usable = described.iter().any(|(wrong, _)| wrong.is_none());
    for (wrong, text) in &described {
        match wrong {
            Some(_) if usable => report.note(text),
            Some(advice) => report.bad(text, advice),
            None => report.good(text),
        }
    }
    ports.len()
}

/// Advice if there is no device.
fn absence(sys: &Path) -> String {
    let mut advice = String::from(
        "load the driver of the adapter, or make one in software: modprobe rdma_rxe; \
         rdma link add rxe0 type rxe netdev INTERFACE",
    );
    // N: each device is in one network namespace; Y: all devices are in all namespaces.
    if line(&sys.join("module/ib_core/parameters/netns_mode")) == "N" {
        advice.push_str(
            ". Or it is in another network namespace (rdma system says netns exclusive); from \
             there: rdma dev set DEVICE netns NAME",
        );
    }
    advice
}

/// Advice about the interface of a port that is not active.
fn awakening(interface: &str, class: &Path) -> String {
    const IFF_UP: u32 = 1;

    let net = class.join("net").join(interface);
    if !net.exists() {
        return format!(
            "bring interface {interface} up where it is, which is not in this network namespace"
        );
    }
    // For example `0x1003`. The carrier can only be read while the interface is up.
    let flags = line(&net.join("flags"));
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
    if flags & IFF_UP == 0 {
        format!("bring the interface up: ip link set {interface} up")
    } else if line(&net.join("carrier")) == "0" {
        format!("interface {interface} is up without a carrier: check the cable and the switch")
    } else {
        format!("interface {interface} is up: look into the kernel's log: dmesg")
    }
}

/// The description of a port, and advice if it cannot be used.
fn describe(port: &Port, class: &Path) -> (Option<String>, String) {
    let state = port
        .state
        .split_once(": ")
        .map_or("unknown", |(_, word)| word);
    let text = format!("{}: {state}, {}", port.name, port.link_layer);
    if port.node_type.starts_with("4:") {
        return (
            Some("use another device: SDP needs InfiniBand or RoCE".into()),
            format!("{}: iWARP, which SDP cannot use", port.name),
        );
    }
    if state != "ACTIVE" {
        let advice = match port.interfaces.first() {
            Some(interface) => awakening(interface, class),
            None => "check the cable, the switch and, on InfiniBand, the subnet manager".into(),
        };
        return (Some(advice), text);
    }
    if port.link_layer != "Ethernet" {
        return (None, text);
    }
    let here = port
        .interfaces
        .iter()
        .find(|name| class.join("net").join(name).exists());
    match (here, port.interfaces.first()) {
        (Some(interface), _) => (None, format!("{text}, behind interface {interface}")),
        (None, Some(interface)) => (
            Some(format!(
                "run the program where interface {interface} is, or move it here: \
                 ip link set {interface} netns NAME"
            )),
            format!("{text}, but its interface is not in this network namespace"),
        ),
        (None, None) => (
            Some("give its network interface an IP address and bring it up".into()),
            format!("{text}, but it has no GID"),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::report::Style;

    fn write(class: &Path, file: &str, text: &str) {
        let path = class.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn what_sys_shows_becomes_words_and_advice() {
        let class = std::env::temp_dir().join(format!("sdp_chk-sys-{}", std::process::id()));
        write(&class, "net/eth0/mtu", "1500\n");
        write(&class, "net/eth1/flags", "0x1002\n");
        write(&class, "infiniband/siw0/node_type", "4: RNIC\n");
        for (device, state, layer, interface) in [
            ("rxe0", "4: ACTIVE\n", "Ethernet\n", "eth0\n"),
            ("rxe1", "1: DOWN\n", "Ethernet\n", "eth1\n"),
            ("rxe2", "4: ACTIVE\n", "Ethernet\n", "eth2\n"),
            ("mlx0", "2: INIT\n", "InfiniBand\n", ""),
            ("mlx1", "4: ACTIVE\n", "InfiniBand\n", ""),
            ("siw0", "4: ACTIVE\n", "Ethernet\n", "eth0\n"),
        ] {
            let port = format!("infiniband/{device}/ports/1");
            write(&class, &format!("{port}/state"), state);
            write(&class, &format!("{port}/link_layer"), layer);
            write(&class, &format!("{port}/gid_attrs/ndevs/0"), interface);
        }
        let found: Vec<_> = ports(&class)
            .iter()
            .map(|port| describe(port, &class))
            .collect();
        fs::remove_dir_all(&class).expect("removed");
        let texts: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "mlx0 port 1: INIT, InfiniBand",
                "mlx1 port 1: ACTIVE, InfiniBand",
                "rxe0 port 1: ACTIVE, Ethernet, behind interface eth0",
                "rxe1 port 1: DOWN, Ethernet",
                "rxe2 port 1: ACTIVE, Ethernet, but its interface is not in this network namespace",
                "siw0 port 1: iWARP, which SDP cannot use",
            ]
        );
        let advice: Vec<_> = found
            .iter()
            .map(|(advice, _)| advice.as_deref().unwrap_or_default())
            .collect();
        assert!(advice.iter().any(|text| text.contains("subnet manager")));
        assert!(advice.contains(&"bring the interface up: ip link set eth1 up"));
        assert!(advice.contains(&"use another device: SDP needs InfiniBand or RoCE"));
        assert_eq!(advice.iter().filter(|text| text.is_empty()).count(), 2);
    }

    #[test]
    fn what_to_do_about_a_port_goes_by_its_interface() {
        let class = std::env::temp_dir().join(format!("sdp_chk-net-{}", std::process::id()));
        for (interface, flags, carrier) in [
            ("down", "0x1002\n", ""),
            ("unplugged", "0x1003\n", "0\n"),
            ("up", "0x1003\n", "1\n"),
        ] {
            write(&class, &format!("net/{interface}/flags"), flags);
            write(&class, &format!("net/{interface}/carrier"), carrier);
        }
        let advice = ["down", "unplugged", "up", "elsewhere"].map(|name| awakening(name, &class));
        fs::remove_dir_all(&class).expect("removed");
        let [down, unplugged, up, elsewhere] = advice;
        assert!(down.ends_with("ip link set down up"));
        assert!(unplugged.contains("without a carrier"));
        assert!(up.contains("dmesg") && !up.contains("ip link"));
        assert!(elsewhere.contains("not in this network namespace"));
    }

    #[test]
    fn a_device_may_be_in_another_namespace_where_each_is_in_one() {
        let sys = std::env::temp_dir().join(format!("sdp_chk-mode-{}", std::process::id()));
        let advice = |mode| {
            write(&sys, "module/ib_core/parameters/netns_mode", mode);
            absence(&sys)
        };
        let (shared, exclusive) = (advice("Y\n"), advice("N\n"));
        fs::remove_dir_all(&sys).expect("removed");
        assert!(!shared.contains("netns") && exclusive.starts_with(&shared));
        assert!(exclusive.contains("rdma dev set DEVICE netns NAME"));
    }

    #[test]
    fn a_device_of_another_namespace_is_bad_where_it_is_the_only_one() {
        let sys = std::env::temp_dir().join(format!("sdp_chk-one-{}", std::process::id()));
        let class = sys.join("class");
        let judge = |device: &str, interface: &str| {
            let port = format!("infiniband/{device}/ports/1");
            write(&class, &format!("{port}/state"), "4: ACTIVE\n");
            write(&class, &format!("{port}/link_layer"), "Ethernet\n");
            write(&class, &format!("{port}/gid_attrs/ndevs/0"), interface);
            let mut report = Report::new(Style::Quiet);
            check(&mut report, &sys);
            report.is_good()
        };
        write(&class, "net/eth0/mtu", "1500\n");
        let alone = judge("rxe1", "eth1\n");
        let beside = judge("rxe0", "eth0\n");
        fs::remove_dir_all(&sys).expect("removed");
        assert!(!alone);
        assert!(beside);
    }

    #[test]
    fn no_device_is_bad() {
        let mut report = Report::new(Style::Quiet);
        assert_eq!(check(&mut report, "/nonexistent".as_ref()), 0);
        assert!(!report.is_good());
    }
}
