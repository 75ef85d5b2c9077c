// SPDX-License-Identifier: MIT
//! The hosts of a history: network namespaces without names, joined by a bridge in one more.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::draw::TCP_AFTER;
use crate::end::address;
use crate::errno::Errno;
use crate::plan::{Ground, Plan};
use crate::sys;

/// The interface of each host.
const LINK: &str = "v";
/// The MTU that RDMA messages of 4096 bytes need.
const MTU: u32 = 4400;
/// The time limit of closed connections whose peers do not close.
const CLOSE_TIMEOUT_MS: u32 = 3000;
/// So that a connection over TCP to a host that is gone ends after two minutes, and not after a quarter of an
/// hour.
const TCP_RETRIES: &str = "8";
/// How long preparations and removals may take, in simulated seconds.
pub const PATIENCE_S: u64 = 60;

pub type Outcome<T> = Result<T, String>;

/// The hosts, while they are there.
pub struct Hosts {
    home: OwnedFd,
    switch: OwnedFd,
    namespaces: Vec<Option<OwnedFd>>,
    ground: Ground,
    /// The namespaces that the reference tracker knew before, if it can tell.
    before: usize,
}

/// The device of a host.
pub fn device(host: usize) -> String {
    format!("hr{host}")
}

/// Waits until something is true.
pub fn await_that(what: &str, seconds: u64, mut happened: impl FnMut() -> bool) -> Outcome<()> {
    let end = sys::now_us() + seconds * 1_000_000;
    let mut pause_us = 500;
    while !happened() {
        if sys::now_us() > end {
            return Err(format!("{what}: not within {seconds} s"));
        }
        sys::sleep_us(pause_us);
        pause_us = (pause_us * 2).min(100_000);
    }
    Ok(())
}

fn tell(error: impl std::fmt::Display, what: &str) -> String {
    format!("{what}: {error}")
}

/// A tool, which runs in a namespace.
fn tool(namespace: RawFd, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let enter =
        move || sys::enter(namespace).map_err(|error| io::Error::from_raw_os_error(error.0));
    // SAFETY: the call after the fork is a system call alone.
    unsafe { command.pre_exec(enter) };
    command
}

/// Runs a tool to its end.
pub fn run(namespace: RawFd, words: &[&str], input: &str) -> Outcome<()> {
    let what = words.join(" ");
    let mut command = tool(namespace, words);
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().map_err(|error| tell(error, &what))?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes()).map_err(|error| tell(error, &what))?;
    }
    let done = child.wait_with_output().map_err(|error| tell(error, &what))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{what}: {} {}", done.status, String::from_utf8_lossy(&done.stderr).trim()))
}

impl Hosts {
    /// Makes them, with devices, links and knobs.
    pub fn make(plan: &Plan) -> Outcome<Self> {
        let before = tracked();
        let home = sys::namespace().map_err(|error| tell(error, "the own namespace"))?;
        let fresh = || -> Outcome<OwnedFd> {
            sys::unshare().map_err(|error| tell(error, "unshare"))?;
            let fresh = sys::namespace().map_err(|error| tell(error, "a fresh namespace"));
            sys::enter(home.as_raw_fd()).map_err(|error| tell(error, "setns"))?;
            fresh
        };
        let switch = fresh()?;
        let mut namespaces = Vec::new();
        for _ in &plan.hosts {
            namespaces.push(Some(fresh()?));
        }
        let hosts = Hosts { home, switch, namespaces, ground: plan.ground, before };
        hosts.join()?;
        for host in 0..plan.hosts.len() {
            hosts.furnish(host)?;
        }
        for host in 0..plan.hosts.len() {
            hosts.await_device(host)?;
            hosts.set_knobs(plan, host)?;
            for (name, value) in [
                ("rate_mbps", plan.hosts[host].rate_mbps),
                ("latency_us", plan.hosts[host].latency_us),
            ] {
                if value > 0 {
                    hosts.fault(host, name, value)?;
                }
            }
        }
        Ok(hosts)
    }

    /// Makes the bridge and a link to each host.
    fn join(&self) -> Outcome<()> {
        let mut lines =
            format!("link add br0 mtu {MTU} type bridge forward_delay 0\nlink set br0 up\n");
        for (host, namespace) in self.namespaces.iter().enumerate() {
            let Some(namespace) = namespace else { continue };
            let _ = write!(
                lines,
                "link add p{host} mtu {MTU} type veth peer name {LINK} mtu {MTU} netns /proc/{}/fd/{}\n\
                 link set p{host} master br0 up\n",
                std::process::id(),
                namespace.as_raw_fd()
            );
        }
        run(self.switch.as_raw_fd(), &["ip", "-batch", "-"], &lines)
    }

    /// Gives a host its addresses and its device.
    fn furnish(&self, host: usize) -> Outcome<()> {
        let Some(fd) = self.fd(host) else { return Ok(()) };
        self.within(host, || {
            // A link that goes down keeps its IPv6 addresses; nothing else has them.
            for (name, value) in [("keep_addr_on_down", "1"), ("accept_dad", "0")] {
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/all/{name}"), value);
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{LINK}/{name}"), value);
            }
        })?;
        let lines = format!(
            "link set lo up\nlink set {LINK} up\naddr add {}/24 dev {LINK}\naddr add {}/64 dev {LINK} nodad\n",
            address(host, 4),
            address(host, 6)
        );
        run(fd, &["ip", "-batch", "-"], &lines)?;
        self.add_device(host)
    }

    /// Makes the RDMA device of a host.
    pub fn add_device(&self, host: usize) -> Outcome<()> {
        let (Some(kind), Some(fd)) = (self.ground.device(), self.fd(host)) else { return Ok(()) };
        run(fd, &["rdma", "link", "add", &device(host), "type", kind, "netdev", LINK], "")
    }

    /// Removes it; it waits for its connections to be taken down.
    pub fn remove_device(host: usize, namespace: RawFd) -> Outcome<()> {
        run(namespace, &["rdma", "link", "del", &device(host)], "")
    }

    /// Waits until the device has the addresses of the host.
    fn await_device(&self, host: usize) -> Outcome<()> {
        if self.ground.device().is_none() {
            return Ok(());
        }
        let wanted = [gid(host, 4), gid(host, 6)];
        let gids = PathBuf::from(format!("/sys/class/infiniband/{}/ports/1/gids", device(host)));
        await_that(&format!("the GIDs of {}", device(host)), PATIENCE_S, || {
            let read =
                |index: u32| fs::read_to_string(gids.join(index.to_string())).unwrap_or_default();
            let found: Vec<_> = (0..8).map(read).collect();
            wanted.iter().all(|gid| found.iter().any(|one| one.trim() == gid))
        })
    }

    pub fn set_knobs(&self, plan: &Plan, host: usize) -> Outcome<()> {
        self.set("net/ipv4/tcp_retries2", host, TCP_RETRIES)?;
        if self.ground == Ground::Tcp {
            return Ok(());
        }
        // Unless the plan says otherwise, an answer may be as late as it likes.
        self.knob(host, TCP_AFTER, "0")?;
        self.knob(host, "close_timeout_ms", &CLOSE_TIMEOUT_MS.to_string())?;
        for (name, value) in &plan.hosts[host].knobs {
            self.knob(host, name, value)?;
        }
        Ok(())
    }

    /// Writes to a file of `/proc/sys/net/sdp`.
    pub fn knob(&self, host: usize, name: &str, value: &str) -> Outcome<()> {
        self.set(&format!("net/sdp/{name}"), host, value)
    }

    /// Writes to a file of `/proc/sys`.
    fn set(&self, name: &str, host: usize, value: &str) -> Outcome<()> {
        let path = format!("/proc/sys/{name}");
        self.within(host, || fs::write(&path, value).map_err(|error| tell(error, &path)))?
            .unwrap_or(Ok(()))
    }

    /// Writes to a file of rlo's debugfs directory, if the host has its device.
    pub fn fault(&self, host: usize, name: &str, value: u32) -> Outcome<()> {
        let path = format!("/sys/kernel/debug/rlo/{}/{name}", device(host));
        // The device of a deleted host waits for completions that are held back.
        if (self.fd(host).is_none() && value != 0) || !Path::new(&path).exists() {
            return Ok(());
        }
        match fs::write(&path, value.to_string()) {
            // The device may be gone since.
            Err(error) if error.kind() != io::ErrorKind::NotFound && Path::new(&path).exists() => {
                Err(tell(error, &path))
            }
            _ => Ok(()),
        }
    }

    pub fn set_link(&self, host: usize, up: bool) -> Outcome<()> {
        let done = self.within(host, || sys::set_up(LINK, up))?;
        done.unwrap_or(Ok(())).map_err(|error| tell(error, "the link"))
    }

    /// Emulates faults of the network on what the host sends.
    pub fn emulate(&self, host: usize, settings: &str) -> Outcome<()> {
        let Some(fd) = self.fd(host) else { return Ok(()) };
        let mut words =
            vec!["tc", "qdisc", "replace", "dev", LINK, "root", "netem", "limit", "1000000"];
        words.extend(settings.split_whitespace());
        match run(fd, &words, "") {
            // A kernel without the emulator has other disturbances.
            Err(error) if error.contains("kind is unknown") => Ok(()),
            other => other,
        }
    }

    /// The namespace of a host, unless it was deleted.
    pub fn fd(&self, host: usize) -> Option<RawFd> {
        self.namespaces[host].as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Runs something on a host, unless it was deleted.
    /// Runs something on a host, unless that is deleted.
    pub fn within<T>(&self, host: usize, script: impl FnOnce() -> T) -> Outcome<Option<T>> {
        let Some(fd) = self.fd(host) else { return Ok(None) };
        sys::within(self.home.as_raw_fd(), fd, script)
            .map(Some)
            .map_err(|error: Errno| tell(error, "setns"))
    }

    /// Moves this process to a host, and keeps no other namespace. For a child.
    pub fn enter(&mut self, host: usize) {
        if let Some(fd) = self.fd(host) {
            let _ = sys::enter(fd);
        }
        for namespace in [self.home.as_raw_fd(), self.switch.as_raw_fd()] {
            // SAFETY: nothing in the child uses the descriptor.
            unsafe { libc::close(namespace) };
        }
        for namespace in &mut self.namespaces {
            drop(namespace.take());
        }
    }

    /// Forgets a host. Its namespace goes when its last process and socket have gone.
    pub fn delete(&mut self, host: usize) {
        self.namespaces[host] = None;
    }

    /// The lines of the connection table of all hosts.
    pub fn table(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for host in 0..self.namespaces.len() {
            let read = || fs::read_to_string("/proc/thread-self/net/sdp").unwrap_or_default();
            if let Ok(Some(text)) = self.within(host, read) {
                lines.extend(text.lines().skip(1).map(|line| format!("host {host}: {line}")));
            }
        }
        lines
    }

    /// Waits until no socket is left.
    pub fn await_empty_tables(&self) -> Outcome<()> {
        // The wait of a closed connection restarts up to ten times.
        await_that("empty tables", 20 * u64::from(CLOSE_TIMEOUT_MS) / 1000 + 60, || {
            self.table().is_empty()
        })
        .map_err(|error| format!("{error}\n{}", self.table().join("\n")))
    }

    /// Takes everything away, and waits until it is gone.
    pub fn take_down(mut self, tidy: bool) -> Outcome<()> {
        for host in 0..self.namespaces.len() {
            let there = Path::new("/sys/class/infiniband").join(device(host)).exists();
            if let (true, true, Some(fd)) = (tidy, there, self.fd(host)) {
                Self::remove_device(host, fd)?;
            }
        }
        let count = self.namespaces.len();
        let before = self.before;
        self.namespaces.clear();
        drop(self);
        await_that("the end of the devices", PATIENCE_S, || {
            !(0..count).any(|host| Path::new("/sys/class/infiniband").join(device(host)).exists())
        })?;
        await_that("the end of the namespaces", PATIENCE_S, || tracked() <= before)
            .map_err(|error| format!("{error}\n{}", references()))
    }
}

/// The GID of an address of a host.
fn gid(host: usize, version: u8) -> String {
    let number = host + 1;
    if version == 4 {
        format!("0000:0000:0000:0000:0000:ffff:0a09:{number:04x}")
    } else {
        format!("fd09:0000:0000:0000:0000:0000:0000:{number:04x}")
    }
}

const TRACKER: &str = "/sys/kernel/debug/ref_tracker";

fn trackers() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(TRACKER) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.to_string_lossy().contains("net_refcnt@")).collect()
}

/// The number of namespaces that the reference tracker knows: 0 if the kernel has none.
fn tracked() -> usize {
    trackers().len()
}

fn references() -> String {
    trackers()
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect::<Vec<_>>()
        .join("\n")
}
