// SPDX-License-Identifier: MIT
//! The links of a host; their packets can be delayed.
//!
//! They have a suitable queueing discipline from the start, and only its delay is changed. While a
//! discipline is being replaced, the network stack drops packets with an error, which rxe treats as
//! a fault of the queue pair. If it is the management queue pair, the device makes no more
//! connections.

use std::fs;
use std::io;
use std::process::Command;
use std::thread;

use crate::args::Device;
use crate::netns::Netns;

/// More packets than are ever in flight; if the queue were full, packets would be dropped with that
/// error.
const QUEUE: &str = "1000000";

/// Prepares the links of a host for delays. Nothing may be sent from there meanwhile.
pub fn prepare(host: &Netns, device: Device) -> io::Result<()> {
    let prepare = || {
        host.enter().map_err(|errno| io::Error::other(format!("setns: {errno}")))?;
        for name in names()? {
            if device == Device::Rxe {
                receive_in_order(&name)?;
            }
            discipline(&name, &[])?;
        }
        Ok(())
    };
    thread::scope(|scope| scope.spawn(prepare).join().expect("a thread"))
}

/// Keeps the order of packets that arrive at a veth interface, as on a wire.
///
/// Without NAPI it has a queue on each processor. A packet goes to the queue of the processor that
/// dequeues it from the queueing discipline, which may differ from packet to packet. In rxe a late
/// acknowledgement within the response to a Read ends the queue pair, and completes the Read as if
/// it were whole. With GRO the interface has NAPI and one queue; packets sent with TSO bypass it.
fn receive_in_order(name: &str) -> io::Result<()> {
    run(Command::new("ethtool").args(["-K", name, "tso", "off", "gro", "on"]))
}

/// Delays the packets of this host, so that a Read takes at least as long.
pub struct Delay(Vec<String>);

impl Delay {
    /// A Read and its completion message are both delayed; after a second the `SrcAvail` is recalled.
    const TIME: &str = "450ms";

    #[track_caller]
    pub fn start() -> Self {
        let names = names().expect("the links of this host");
        for name in &names {
            discipline(name, &["delay", Self::TIME]).expect("a delay");
        }
        Delay(names)
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        for name in &self.0 {
            if let Err(error) = discipline(name, &[]) {
                eprintln!("# taking the delay from {name}: {error}");
            }
        }
    }
}

/// The links of the namespace this thread is in.
fn names() -> io::Result<Vec<String>> {
    let text = fs::read_to_string("/proc/thread-self/net/dev")?;
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_string()).filter(|name| name != "lo").collect())
}

fn discipline(device: &str, delay: &[&str]) -> io::Result<()> {
    let words = ["qdisc", "replace", "dev", device, "root", "netem", "limit", QUEUE];
    run(Command::new("tc").args(words).args(delay))
}

fn run(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{command:?}: {status}")))
    }
}
