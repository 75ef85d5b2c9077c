// SPDX-License-Identifier: MIT

//! The findings: one line each, with advice after a bad one; or one JSON object.

use crate::view::View;
use serde::Serialize;
use std::io::{self, Write};
use std::net::SocketAddr;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Text,
    /// Bad findings only.
    Quiet,
    Json,
}

/// The result of a test connection.
#[derive(Debug, Serialize)]
pub(crate) struct Trial {
    pub(crate) address: SocketAddr,
    /// `SDP` or `TCP`; null if neither reached the address.
    pub(crate) transport: Option<&'static str>,
    /// The errno of connect() over SDP, if it failed.
    pub(crate) errno: Option<i32>,
    /// The report of `sdp_chk --server` there.
    pub(crate) server: Option<View>,
}

/// One finding.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    /// `ok`, `note` or `bad`.
    verdict: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    trial: Option<Trial>,
}

/// All findings, as `--json` prints them.
#[derive(Serialize)]
struct Whole<'a> {
    version: &'static str,
    /// Whether SDP works on this host, if that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    works: Option<bool>,
    /// Whether no finding is bad: the exit status.
    good: bool,
    summary: &'a str,
    findings: &'a [Finding],
}

/// A connection to the server, as `--server --json` prints it.
#[derive(Serialize)]
struct Event<'a> {
    verdict: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a View>,
}

/// The findings so far.
pub(crate) struct Report {
    style: Style,
    about: &'static str,
    findings: Vec<Finding>,
    /// The number of faults that keep SDP from working here.
    wrong: usize,
    /// The number of faults that do not keep SDP from working here.
    apart: usize,
}

impl Report {
    pub(crate) const fn new(style: Style) -> Self {
        Self {
            style,
            about: "",
            findings: Vec::new(),
            wrong: 0,
            apart: 0,
        }
    }

    /// Sets the subject of the next findings.
    pub(crate) fn about(&mut self, what: &'static str) {
        self.about = what;
    }

    /// A good finding.
    pub(crate) fn good(&mut self, what: &str) {
        self.add("ok", what, None, None);
    }

    /// A finding that is neither good nor bad.
    pub(crate) fn note(&mut self, what: &str) {
        self.add("note", what, None, None);
    }

    /// A finding that is neither, with what can be done about it.
    pub(crate) fn remark(&mut self, what: &str, advice: Option<&str>) {
        self.add("note", what, advice, None);
    }

    /// A fault that keeps SDP from working.
    pub(crate) fn bad(&mut self, what: &str, advice: &str) {
        self.wrong = self.wrong.saturating_add(1);
        self.add("bad", what, Some(advice), None);
    }

    /// A fault to be corrected, although SDP works here.
    pub(crate) fn bad_apart(&mut self, what: &str, advice: &str) {
        self.apart = self.apart.saturating_add(1);
        self.add("bad", what, Some(advice), None);
    }

    /// A test connection: good, bad with advice, or a note.
    pub(crate) fn trial(
        &mut self,
        verdict: &'static str,
        what: &str,
        advice: Option<&str>,
        trial: Trial,
    ) {
        if verdict == "bad" {
            self.apart = self.apart.saturating_add(1);
        }
        self.add(verdict, what, advice, Some(trial));
    }

    fn add(
        &mut self,
        verdict: &'static str,
        what: &str,
        advice: Option<&str>,
        trial: Option<Trial>,
    ) {
        match self.style {
            Style::Json => self.findings.push(Finding {
                about: self.about,
                verdict,
                text: what.into(),
                advice: advice.map(Into::into),
                trial,
            }),
            Style::Quiet if verdict != "bad" => {}
            Style::Text | Style::Quiet => {
                say(label(verdict), what);
                if let Some(advice) = advice {
                    say("      -> ", advice);
                }
            }
        }
    }

    /// Prints a server's observation at once.
    pub(crate) fn event(
        &self,
        verdict: &'static str,
        what: &str,
        connection: Option<(SocketAddr, &View, Option<&View>)>,
    ) {
        if self.style != Style::Json {
            return say(label(verdict), what);
        }
        print_json(&Event {
            verdict,
            text: what,
            address: connection.map(|(address, ..)| address),
            transport: connection.map(|(_, view, _)| view.transport.as_str()),
            client: connection.and_then(|(.., client)| client),
        });
    }

    /// Prints a server's findings before it serves.
    pub(crate) fn flush(&self) {
        for finding in &self.findings {
            print_json(finding);
        }
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.wrong == 0 && self.apart == 0
    }

    /// The summary; `has_sdp` is whether the kernel makes SDP sockets.
    pub(crate) fn end(&mut self, has_sdp: bool) {
        self.finish(self.sum(has_sdp), Some(self.wrong == 0));
    }

    /// Ends with this line; `works` says whether SDP works on this host.
    pub(crate) fn finish(&mut self, summary: &str, works: Option<bool>) {
        if self.style != Style::Json {
            return self.note(summary);
        }
        print_json(&Whole {
            version: env!("CARGO_PKG_VERSION"),
            works,
            good: self.is_good(),
            summary,
            findings: &self.findings,
        });
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

/// All labels have the same width.
fn label(verdict: &str) -> &'static str {
    match verdict {
        "ok" => "ok    ",
        "bad" => "BAD   ",
        _ => "note  ",
    }
}

/// If no program reads the lines, as with `| head -1`, the exit status still has the result.
fn say(before: &str, what: &str) {
    let _ = writeln!(io::stdout(), "{before}{what}");
}

fn print_json(value: &impl Serialize) {
    // These structs have text and numbers only, so they can always be converted to JSON.
    if let Ok(text) = serde_json::to_string(value) {
        say("", &text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::expect_used,
        clippy::indexing_slicing,
        reason = "a panic is how a test fails"
    )]

    use super::*;

    #[test]
    fn the_sum_is_about_what_keeps_sdp_from_working() {
        let mut report = Report::new(Style::Quiet);
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

    #[test]
    fn findings_have_a_form_in_json() {
        let mut report = Report::new(Style::Json);
        report.about("host");
        report.trial(
            "bad",
            "not reached",
            Some("mend it"),
            Trial {
                address: ([10, 0, 0, 2], 7).into(),
                transport: None,
                errno: Some(libc::ENETUNREACH),
                server: None,
            },
        );
        assert!(!report.is_good());
        let found = serde_json::to_value(&report.findings).expect("there is one");
        assert_eq!(
            found,
            serde_json::json!([{
                "about": "host", "verdict": "bad", "text": "not reached", "advice": "mend it",
                "address": "10.0.0.2:7", "transport": null, "errno": 101, "server": null,
            }])
        );
    }
}
