// SPDX-License-Identifier: MIT
//! The links of a host, whose packets can be made late.
//!
//! They have a queueing discipline that allows it from the start, and only its delay is changed.
//! While a discipline is being exchanged the network stack drops what is sent and says so, which
//! rxe takes for a fault of the queue pair: where it is that of the device's management, no
//! connection can be made from there any more.

use std::fs;
use std::io;
use std::process::Command;
use std::thread;

use crate::args::Device;
use crate::netns::Netns;

/// More packets than are ever on their way; one too many would be dropped with the same notice.
const QUEUE: &str = "1000000";

/// Lets the packets of a host be late later. Nothing may be sent from there meanwhile.
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

/// Packets that come to a veth interface stay in their order, as on a wire.
///
/// Without NAPI it has a queue on each processor, and a packet goes to that of the processor that
/// takes it from the queueing discipline, which need not be the one that takes the next. For rxe a
/// late acknowledgement within the response to a Read ends the queue pair, and the Read as if all of
/// it had come. With GRO the interface has NAPI and one queue; what is sent with TSO passes it by.
fn receive_in_order(name: &str) -> io::Result<()> {
    run(Command::new("ethtool").args(["-K", name, "tso", "off", "gro", "on"]))
}

/// The packets of this host leave late, so that a Read lasts at least as long.
pub struct Delay(Vec<String>);

impl Delay {
    /// A Read and the word that it is done are both late; after a second the offer is recalled.
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
