// SPDX-License-Identifier: GPL-2.0

//! What a connect() does that may use SDP or TCP, each time that it looks at both attempts.
//!
//! TCP's attempt begins while SDP's goes on if nothing is known of the peer
//! ([`answers`](super::answers)). From then on the peer's program may accept TCP's connection at
//! any moment, and an accepted connection must not be given up for another one. So SDP's attempt,
//! whether it fails or is made again, ends TCP's only by its success.

/// TCP's attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tcp {
    /// The peer has not answered.
    Asking,
    /// There is a connection.
    Made,
    /// The peer has refused, or cannot be reached.
    Failed,
}

/// Both attempts at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// connect() goes on, and nothing is decided.
    pub connecting: bool,
    /// Our Hello was sent.
    pub asked: bool,
    /// SDP's attempt has failed, and what acts on that is about to run.
    pub failed: bool,
    /// SDP has an answer, and TCP has had its time.
    pub late: bool,
    /// TCP's attempt, if it has begun.
    pub tcp: Option<Tcp>,
}

/// The next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing. No further look is needed.
    Nothing,
    /// TCP's attempt may begin.
    Begin,
    /// Another look, later.
    Again,
    /// The connection is TCP's.
    TakeTcp,
    /// TCP's attempt is given up.
    LeaveTcp,
}

impl Look {
    /// Decides.
    pub fn step(&self) -> Step {
        match (self.tcp, self.connecting) {
            (None, true) if self.asked && !self.failed => Step::Begin,
            (None, _) => Step::Nothing,
            (Some(_), false) => Step::LeaveTcp,
            (Some(_), true) if self.failed => Step::Again,
            (Some(Tcp::Asking), true) if !self.late => Step::Again,
            (Some(Tcp::Made), true) => Step::TakeTcp,
            (Some(Tcp::Asking | Tcp::Failed), true) => Step::LeaveTcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKING: Look = Look {
        connecting: true,
        asked: true,
        failed: false,
        late: false,
        tcp: Some(Tcp::Asking),
    };

    #[test]
    fn tcp_begins_behind_the_hello_of_an_attempt_that_goes_on() {
        let alone = Look {
            tcp: None,
            ..ASKING
        };
        assert_eq!(alone.step(), Step::Begin);
        for look in [
            Look {
                asked: false,
                ..alone
            },
            Look {
                failed: true,
                ..alone
            },
            Look {
                connecting: false,
                ..alone
            },
        ] {
            assert_eq!(look.step(), Step::Nothing);
        }
    }

    #[test]
    fn tcp_has_the_connection_that_it_made() {
        let made = Look {
            tcp: Some(Tcp::Made),
            ..ASKING
        };
        // An answer over SDP is held meanwhile, and another Hello may be due.
        for (late, asked) in [(false, false), (false, true), (true, false), (true, true)] {
            let look = Look {
                late,
                asked,
                ..made
            };
            assert_eq!(look.step(), Step::TakeTcp);
        }
    }

    #[test]
    fn tcp_is_waited_for_until_it_is_late() {
        assert_eq!(ASKING.step(), Step::Again);
        let anew = Look {
            asked: false,
            ..ASKING
        };
        assert_eq!(anew.step(), Step::Again);
        let late = Look {
            late: true,
            ..ASKING
        };
        assert_eq!(late.step(), Step::LeaveTcp);
        let failed = Look {
            tcp: Some(Tcp::Failed),
            ..ASKING
        };
        assert_eq!(failed.step(), Step::LeaveTcp);
    }

    #[test]
    fn failure_of_sdp_leaves_tcp_alone() {
        for tcp in [Tcp::Asking, Tcp::Made, Tcp::Failed] {
            let look = Look {
                failed: true,
                tcp: Some(tcp),
                ..ASKING
            };
            assert_eq!(look.step(), Step::Again);
        }
    }

    #[test]
    fn end_of_the_call_ends_tcp() {
        for tcp in [Tcp::Asking, Tcp::Made, Tcp::Failed] {
            for failed in [false, true] {
                let look = Look {
                    connecting: false,
                    failed,
                    tcp: Some(tcp),
                    ..ASKING
                };
                assert_eq!(look.step(), Step::LeaveTcp);
            }
        }
    }
}
