// SPDX-License-Identifier: MIT
//! Observations of a role: their text form, and their way to the supervisor.

use std::fmt::Debug;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::addr::Addr;
use crate::control;
use crate::errno::{Errno, Res};
use crate::message::Received;
use crate::poller::Events;
use crate::sock::Sock;

/// A value with a text that is the same for the same behaviour.
pub trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_by_display {
    ($($kind:ty),*) => { $(impl Shown for $kind {
        fn shown(&self) -> String { self.to_string() }
    })* };
}
shown_by_display!(bool, char, u8, u16, i32, u32, i64, u64, usize, String, Addr, Errno, Events);

impl Shown for () {
    fn shown(&self) -> String {
        "ok".to_string()
    }
}

impl Shown for str {
    fn shown(&self) -> String {
        self.to_string()
    }
}

/// Descriptor numbers differ from run to run.
impl Shown for Sock {
    fn shown(&self) -> String {
        "a socket".to_string()
    }
}

impl Shown for Received {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl<T: Shown + ?Sized> Shown for &T {
    fn shown(&self) -> String {
        (*self).shown()
    }
}

impl<T: Shown> Shown for Res<T> {
    fn shown(&self) -> String {
        match self {
            Ok(value) => value.shown(),
            Err(errno) => errno.to_string(),
        }
    }
}

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or("none".to_string(), Shown::shown)
    }
}

impl<T: Debug> Shown for Vec<T> {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl<T: Debug, U: Debug> Shown for (T, U) {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl<T: Debug, U: Debug, V: Debug> Shown for (T, U, V) {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

/// One labelled value in a role's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub label: String,
    pub value: String,
}

/// A message of a role to the supervisor.
#[derive(Debug, PartialEq, Eq)]
pub enum Note {
    /// The role's position, for the report of a timeout.
    At(String),
    Seen(Observation),
    Failed(String),
    Done,
}

impl Note {
    fn encode(&self) -> String {
        match self {
            Note::At(place) => format!("A{place}"),
            Note::Seen(seen) => format!("S{}\n{}", seen.label, seen.value),
            Note::Failed(why) => format!("F{why}"),
            Note::Done => "D".to_string(),
        }
    }

    /// Sends it over a report channel; without a supervisor, errors are ignored.
    pub fn send(&self, fd: RawFd) {
        control::put(fd, &self.encode());
    }

    pub fn decode(text: &str) -> Option<Self> {
        let rest = text.get(1..)?;
        match text.as_bytes().first()? {
            b'A' => Some(Note::At(rest.to_string())),
            b'S' => {
                let (label, value) = rest.split_once('\n')?;
                let (label, value) = (label.to_string(), value.to_string());
                Some(Note::Seen(Observation { label, value }))
            }
            b'F' => Some(Note::Failed(rest.to_string())),
            b'D' => Some(Note::Done),
            _ => None,
        }
    }
}

/// The role's end of its channel to the supervisor.
pub struct Report(OwnedFd);

impl Report {
    pub fn new(fd: OwnedFd) -> Self {
        Report(fd)
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn note(&self, note: &Note) {
        note.send(self.fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive_the_channel() {
        let seen = Observation { label: "recv".into(), value: "a\nb".into() };
        for note in [Note::At("x".into()), Note::Seen(seen), Note::Failed("y".into()), Note::Done] {
            assert_eq!(Note::decode(&note.encode()), Some(note));
        }
        assert_eq!(Note::decode(""), None);
    }

    #[test]
    fn an_address_is_shown_without_its_port() {
        let ip = "10.0.0.1".parse().unwrap();
        assert_eq!(Addr::new(ip, 1).shown(), Addr::new(ip, 2).shown());
    }
}
