// SPDX-License-Identifier: MIT

//! A port of the bridge and its device. Each has a thread, so that no port waits for another one: the
//! kernel works in the call, and a removal waits for the device's users.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::device;
use crate::link::{self, Place};
use crate::namespace::{self, Namespace};

/// The time after which a port is looked at again. It doubles each time that nothing has changed.
const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(5);

/// A device that the port has.
struct Known {
    index: u32,
    /// The interface on which it was made, and the namespace of that.
    place: Place,
    namespace: Namespace,
}

pub(crate) struct Port {
    /// The number of the port's interface.
    index: u32,
    /// The name of its device.
    name: String,
    device: Option<Known>,
    /// The last message.
    said: String,
}

/// The outcome of an attempt to make a device.
enum Made {
    Ours(u32),
    /// The interface has a device that the administrator has made.
    Theirs,
}

/// Makes the device of this name on an interface of this namespace, or finds the one that an earlier
/// process has made.
fn make(name: &str, port: u32, interface: u32) -> io::Result<Made> {
    let end = link::by_index(interface)?;
    if !end.is_veth_with(port) {
        return Err(io::Error::other("the interface has left its namespace"));
    }
    let is_new = match device::add(name, &end.name) {
        Ok(()) => true,
        Err(e) if matches!(e.raw_os_error(), Some(libc::EEXIST | libc::ENFILE)) => false,
        Err(e) => return Err(e),
    };
    let Some(index) = device::by_name(name)? else {
        return match is_new {
            false => Ok(Made::Theirs),
            true => Err(io::Error::other("the device was removed at once")),
        };
    };
    if device::interface_of(index)? == Some(interface) {
        return Ok(Made::Ours(index));
    }
    // The kernel makes devices by name, and another interface has got this one meanwhile.
    if is_new {
        device::remove(index)?;
    }
    Err(io::Error::other(format!("{name} is on another interface")))
}

impl Port {
    pub(crate) fn new(index: u32, name: String) -> Self {
        Self {
            index,
            name,
            device: None,
            said: String::new(),
        }
    }

    /// Sees to the device until the port goes, which is the end of `places`. `tried` is dropped after
    /// the first attempt.
    pub(crate) fn run(mut self, places: &Receiver<Place>, tried: Sender<()>) {
        let mut tried = Some(tried);
        let mut place = None;
        let mut wait = SOON;
        loop {
            match places.recv_timeout(wait) {
                Ok(new) => (place, wait) = (Some(new), SOON),
                Err(RecvTimeoutError::Timeout) => wait = LATE.min(wait * 2),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let Some(place) = place else { continue };
            match self.see_to(place) {
                Ok(true) => wait = SOON,
                Ok(false) => {}
                Err(e) => self.say(&e.to_string()),
            }
            tried = None;
        }
        drop(tried);
        if let Err(e) = self.remove() {
            self.say(&e.to_string());
        }
    }

    /// Makes the device if it is not there; returns whether it has made or found one.
    fn see_to(&mut self, place: Place) -> io::Result<bool> {
        if let Some(known) = &self.device {
            if known.place == place && device::is_in(known.namespace, known.index)? {
                return Ok(false);
            }
            // The kernel removes the device of an interface that leaves a namespace, but later.
            self.remove()?;
        }
        let namespace = namespace::by_number(place.namespace)?;
        let (name, port) = (self.name.as_str(), self.index);
        let made = namespace::inside(namespace, || make(name, port, place.interface))?;
        match made {
            Made::Ours(index) => {
                self.device = Some(Known {
                    index,
                    place,
                    namespace,
                });
                self.say(&format!("has the device {}", self.name));
                Ok(true)
            }
            Made::Theirs => {
                self.say("has a device of its own, which is left alone");
                Ok(false)
            }
        }
    }

    fn remove(&mut self) -> io::Result<()> {
        match self.device.take() {
            Some(known) => device::remove_in(known.namespace, known.index),
            None => Ok(()),
        }
    }

    /// Reports, but not the same twice.
    fn say(&mut self, what: &str) {
        if self.said != what {
            eprintln!("rlo_bridge: port {} {what}", self.index);
            what.clone_into(&mut self.said);
        }
    }
}
