// SPDX-License-Identifier: MIT

//! `rlo_bridge`: gives the containers on a bridge their rlo devices.
//!
//! The main thread hears of changes of interfaces, and lists the ports of the bridge after each
//! (`link`). So an event that is lost, or a process that dies, leaves nothing out of step. A thread for
//! each port (`port`) makes its device inside the container's namespace (`namespace`, `device`).

mod arguments;
mod bridge;
mod device;
mod link;
mod lock;
mod names;
mod namespace;
mod port;
#[path = "../../preload/src/bin/sdp_run/readiness.rs"]
mod readiness;

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Sender};
use std::time::Duration;

use clap::Parser;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use sdp_netlink::Socket;

use crate::arguments::Arguments;
use crate::bridge::Bridge;
use crate::lock::Lock;
use crate::names::Names;

/// How long the service manager waits for ports that were there at the start.
const START: Duration = Duration::from_secs(10);
/// After this time the ports are listed without an event: a thread may not have begun.
const LATE: u16 = 5000;

/// An error with the step that failed.
fn failed(what: &str) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |e| io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// The signals that end the process, which all threads leave to a descriptor.
fn signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    set.thread_block()?;
    Ok(SignalFd::new(&set)?)
}

/// Takes the events away. Their number is all that is lost if there were too many.
fn drain(changes: &Socket) {
    while changes.recv_from_full().is_ok() {}
}

/// Lists the ports and follows them; false if they must be listed again.
fn look(name: &str, bridge: &mut Bridge, tried: &Sender<()>) -> io::Result<bool> {
    match link::ports(name) {
        Ok(ports) => {
            bridge.follow(&ports.unwrap_or_default(), tried)?;
            Ok(true)
        }
        Err(e) if e.kind() == ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

/// Waits for an event; returns whether the process shall end.
fn wait(changes: &Socket, signals: &SignalFd, limit: PollTimeout) -> io::Result<bool> {
    let mut both = [
        PollFd::new(changes.as_fd(), PollFlags::POLLIN),
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
    ];
    poll(&mut both, limit)?;
    let [_, signal] = both;
    Ok(signal.any().unwrap_or(false))
}

/// Follows the bridge until a signal comes.
fn follow(name: &str, bridge: &mut Bridge, signals: &SignalFd) -> io::Result<()> {
    let changes = link::changes().map_err(failed("netlink"))?;
    let (tried, all_tried) = channel();
    while !look(name, bridge, &tried)? {}
    bridge
        .sweep()
        .map_err(failed("RDMA devices (modprobe rlo)"))?;
    drop(tried);
    let _ = all_tried.recv_timeout(START);
    readiness::tell().map_err(failed("the service manager"))?;
    let (tried, _) = channel();
    let mut is_done = true;
    loop {
        let limit = if is_done { LATE } else { 0 };
        if wait(&changes, signals, limit.into())? {
            return Ok(());
        }
        drain(&changes);
        is_done = look(name, bridge, &tried).unwrap_or_else(|e| {
            eprintln!("rlo_bridge: {e}");
            true
        });
    }
}

fn run(name: &str) -> io::Result<()> {
    let signals = signals()?;
    let names = Names::of(name).map_err(failed("the namespace"))?;
    let _lock = Lock::take(names.lock()).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => io::Error::other("another process serves this bridge"),
        _ => failed(&names.lock())(e),
    })?;
    let mut bridge = Bridge::new(names);
    let followed = follow(name, &mut bridge, &signals);
    let ended = bridge.end();
    followed.and(ended)
}

fn main() -> ExitCode {
    let bridge = Arguments::parse().bridge;
    match run(&bridge) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("rlo_bridge: {bridge}: {e}");
            ExitCode::FAILURE
        }
    }
}
