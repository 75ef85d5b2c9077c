// SPDX-License-Identifier: MIT

//! What was found, one line each, with what to do behind what is wrong.

use std::io::{self, Write};

/// The findings so far.
pub(crate) struct Report {
    quiet: bool,
    /// What keeps SDP from working here.
    wrong: usize,
    /// What is wrong, although SDP works here.
    apart: usize,
}

impl Report {
    pub(crate) const fn new(quiet: bool) -> Self {
        Self {
            quiet,
            wrong: 0,
            apart: 0,
        }
    }

    /// As it should be.
    pub(crate) fn good(&self, what: &str) {
        if !self.quiet {
            say("ok    ", what);
        }
    }

    /// Neither here nor there.
    pub(crate) fn note(&self, what: &str) {
        if !self.quiet {
            say("note  ", what);
        }
    }

    /// SDP cannot work like this.
    pub(crate) fn bad(&mut self, what: &str, advice: &str) {
        self.wrong = self.wrong.saturating_add(1);
        say_bad(what, advice);
    }

    /// To be put right, but SDP works here without it.
    pub(crate) fn bad_apart(&mut self, what: &str, advice: &str) {
        self.apart = self.apart.saturating_add(1);
        say_bad(what, advice);
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.wrong == 0 && self.apart == 0
    }

    /// The sum; `has_sdp` is whether the kernel makes SDP sockets.
    pub(crate) fn end(&self, has_sdp: bool) {
        self.note(self.sum(has_sdp));
    }

    const fn sum(&self, has_sdp: bool) -> &'static str {
        match (self.wrong, self.apart, has_sdp) {
            (0, 0, _) => "SDP works here",
            (0, ..) => "apart from that SDP works here",
            (.., false) => "until that is put right, programs under sdp_run use TCP",
            (.., true) => {
                "until that is put right, programs under sdp_run use TCP, unless their rules \
                 say SDP alone"
            }
        }
    }
}

fn say_bad(what: &str, advice: &str) {
    say("BAD   ", what);
    say("      -> ", advice);
}

/// Where nobody reads the lines, as behind `head -1`, the exit status still tells.
fn say(before: &str, what: &str) {
    let _ = writeln!(io::stdout(), "{before}{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_about_what_keeps_sdp_from_working() {
        let mut report = Report::new(true);
        assert_eq!(report.sum(true), "SDP works here");
        report.bad_apart("a rule", "mend it");
        assert!(!report.is_good());
        assert_eq!(report.sum(true), "apart from that SDP works here");
        report.bad("a device", "mend it");
        assert!(report
            .sum(true)
            .ends_with("unless their rules say SDP alone"));
        assert!(report.sum(false).ends_with("use TCP"));
    }
}
