// SPDX-License-Identifier: GPL-2.0

//! Whether TCP may take over a connect() that began over SDP, and how far that is. `sock/attempt` and
//! `sock/race` act on it.
//!
//! Contexts: data, under the endpoint's lock.

use crate::{
    prelude::*,
    race::Race, //
};

/// See the module.
#[derive(Default)]
pub(crate) struct Fallback {
    /// A failing connect() may fall back to TCP.
    open: bool,
    /// A policy of IPsec has kept the last connect() from SDP.
    ipsec: bool,
    /// The last connect() has succeeded, even if the connection has ended since.
    came_about: bool,
    /// TCP's attempt is under way beside SDP's.
    race: Option<KBox<Race>>,
    /// The error of SDP, until TCP's attempt takes over.
    failure: Option<Error>,
}

impl Fallback {
    /// A connect() begins that may fall back.
    pub(crate) fn begin(&mut self) {
        self.open = true;
        self.came_about = false;
    }

    /// Whether a failing connect() may fall back to TCP.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The result of connect() is told to the program.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Whether a policy of IPsec keeps the connect() from SDP.
    pub(crate) fn set_ipsec(&mut self, is: bool) {
        self.ipsec = is;
    }

    /// Whether a policy of IPsec has kept the last connect() from SDP.
    pub(crate) fn is_for_ipsec(&self) -> bool {
        self.ipsec
    }

    /// The connection over SDP is made.
    pub(crate) fn on_connected(&mut self) {
        self.came_about = true;
    }

    /// Whether the last connect() has succeeded, even if the connection has ended since.
    pub(crate) fn has_come_about(&self) -> bool {
        self.came_about
    }

    /// SDP has failed; TCP's attempt is about to take over.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }

    /// Whether SDP has failed, and TCP's attempt has not taken over yet.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// TCP's attempt takes over, because SDP failed with this error.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// The connection, or the connect(), has ended. A race goes on until [`Self::stop_race`].
    pub(crate) fn finish(&mut self) {
        self.open = false;
        self.failure = None;
    }

    /// TCP's attempt beside SDP's.
    pub(crate) fn race(&self) -> Option<&Race> {
        self.race.as_deref()
    }

    pub(crate) fn race_mut(&mut self) -> Option<&mut Race> {
        self.race.as_deref_mut()
    }

    pub(crate) fn start_race(&mut self, race: KBox<Race>) {
        self.race = Some(race);
    }

    /// TCP's attempt is no longer beside SDP's.
    pub(crate) fn stop_race(&mut self) -> Option<KBox<Race>> {
        self.race.take()
    }
}
