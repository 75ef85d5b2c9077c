// SPDX-License-Identifier: MIT
//! Results as KTAP version 1: one test per case and IP version, with one subtest per family and one
//! for their agreement.

use std::io::{self, Write};

/// One line of the nested plan.
pub struct Subtest {
    pub name: &'static str,
    pub passed: bool,
    pub diagnostics: Vec<String>,
}

pub struct Ktap<W> {
    out: W,
    number: usize,
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl<W: Write> Ktap<W> {
    pub fn begin(mut out: W, planned: usize) -> io::Result<Self> {
        writeln!(out, "KTAP version 1\n1..{planned}")?;
        out.flush()?;
        Ok(Ktap { out, number: 0, passed: 0, failed: 0, skipped: 0 })
    }

    pub fn skip(&mut self, name: &str, reason: &str) -> io::Result<()> {
        self.number += 1;
        self.skipped += 1;
        writeln!(self.out, "ok {} {name} # SKIP {reason}", self.number)?;
        self.out.flush()
    }

    /// Writes one test. People read the log, too, so each line of a diagnostic is marked.
    pub fn test(&mut self, name: &str, subtests: &[Subtest]) -> io::Result<()> {
        self.number += 1;
        let passed = subtests.iter().all(|subtest| subtest.passed);
        writeln!(self.out, "  KTAP version 1\n  1..{}", subtests.len())?;
        for (index, subtest) in subtests.iter().enumerate() {
            for line in subtest.diagnostics.iter().flat_map(|text| text.lines()) {
                writeln!(self.out, "  # {line}")?;
            }
            writeln!(self.out, "  {} {} {}", word(subtest.passed), index + 1, subtest.name)?;
        }
        writeln!(self.out, "{} {} {name}", word(passed), self.number)?;
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        self.out.flush()
    }

    pub fn end(&mut self) -> io::Result<()> {
        let Ktap { out, passed, failed, skipped, .. } = self;
        writeln!(out, "# {passed} passed, {failed} failed, {skipped} skipped")?;
        out.flush()
    }
}

fn word(passed: bool) -> &'static str {
    if passed {
        "ok"
    } else {
        "not ok"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_subtest_fails_its_test_and_explains_itself() {
        let mut text = Vec::new();
        let mut ktap = Ktap::begin(&mut text, 2).unwrap();
        let subtest = |name, passed, diagnostics| Subtest { name, passed, diagnostics };
        ktap.test(
            "bind",
            &[subtest("tcp", true, vec![]), subtest("sdp", false, vec!["a\nb".to_string()])],
        )
        .unwrap();
        ktap.skip("far", "one host").unwrap();
        ktap.end().unwrap();
        let want = "KTAP version 1\n1..2\n  KTAP version 1\n  1..2\n  ok 1 tcp\n  # a\n  # b\n  \
                    not ok 2 sdp\nnot ok 1 bind\nok 2 far # SKIP one host\n\
                    # 0 passed, 1 failed, 1 skipped\n";
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }
}
