// SPDX-License-Identifier: MIT

//! The ports of the bridge that have a thread.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{channel, Sender};
use std::thread::{self, JoinHandle};

use crate::device;
use crate::link::{Place, Ports};
use crate::names::Names;
use crate::port::Port;

/// A thread's stack: it makes a few small calls.
const STACK: usize = 256 << 10;

struct Known {
    place: Place,
    places: Sender<Place>,
}

pub(crate) struct Bridge {
    names: Names,
    known: HashMap<u32, Known>,
    threads: Vec<JoinHandle<()>>,
}

impl Bridge {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            known: HashMap::new(),
            threads: Vec::new(),
        }
    }

    /// Brings the threads in line with the ports. Each new one drops a clone of `tried` after its first
    /// attempt.
    pub(crate) fn follow(&mut self, ports: &Ports, tried: &Sender<()>) -> io::Result<()> {
        self.threads.retain(|thread| !thread.is_finished());
        // A thread removes its device when its channel ends.
        self.known.retain(|index, _| ports.contains_key(index));
        for (&index, &place) in ports {
            match self.known.get_mut(&index) {
                Some(known) if known.place == place => {}
                Some(known) => {
                    known.place = place;
                    let _ = known.places.send(place);
                }
                None => self.begin(index, place, tried.clone())?,
            }
        }
        Ok(())
    }

    fn begin(&mut self, index: u32, place: Place, tried: Sender<()>) -> io::Result<()> {
        let port = Port::new(index, self.names.device(index));
        let (places, received) = channel();
        let _ = places.send(place);
        self.run(move || port.run(&received, tried))?;
        self.known.insert(index, Known { place, places });
        Ok(())
    }

    /// Removes the devices of ports that have none: of earlier processes.
    pub(crate) fn sweep(&mut self) -> io::Result<()> {
        for (namespace, device) in device::everywhere()? {
            let port = self.names.port(&device.name);
            if port.is_some_and(|port| !self.known.contains_key(&port)) {
                self.run(move || {
                    if let Err(e) = device::remove_in(namespace, device.index) {
                        eprintln!("rlo_bridge: {}: {e}", device.name);
                    }
                })?;
            }
        }
        Ok(())
    }

    fn run(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().stack_size(STACK).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Removes all devices, and waits for that.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.known.clear();
        self.join();
        let result = self.sweep();
        self.join();
        result
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
