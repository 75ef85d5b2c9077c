// SPDX-License-Identifier: MIT

//! What was found, one line each, with what to do behind what is wrong.

/// The findings so far.
pub(crate) struct Report {
    quiet: bool,
    wrong: usize,
}

impl Report {
    pub(crate) const fn new(quiet: bool) -> Self {
        Self { quiet, wrong: 0 }
    }

    /// As it should be.
    pub(crate) fn good(&self, what: &str) {
        if !self.quiet {
            println!("ok    {what}");
        }
    }

    /// Neither here nor there.
    pub(crate) fn note(&self, what: &str) {
        if !self.quiet {
            println!("note  {what}");
        }
    }

    /// SDP cannot work like this.
    pub(crate) fn bad(&mut self, what: &str, advice: &str) {
        self.wrong = self.wrong.saturating_add(1);
        println!("BAD   {what}");
        println!("      -> {advice}");
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.wrong == 0
    }

    /// The sum.
    pub(crate) fn end(&self) {
        if self.is_good() {
            self.note("SDP works here");
        } else {
            self.note("until that is put right, programs under sdp_run use TCP");
        }
    }
}
