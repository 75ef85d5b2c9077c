// SPDX-License-Identifier: MIT
//! Compares the observations on TCP and on SDP.

use crate::case::{Difference, Turn};
use crate::observe::Observation;
use crate::world::Side;

/// Both logs of one run of a case.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    pub server: Vec<Observation>,
    pub client: Vec<Observation>,
}

impl Logs {
    pub fn of(&self, side: Side) -> &[Observation] {
        match side {
            Side::Server => &self.server,
            Side::Client => &self.client,
        }
    }

    pub fn of_mut(&mut self, side: Side) -> &mut Vec<Observation> {
        match side {
            Side::Server => &mut self.server,
            Side::Client => &mut self.client,
        }
    }
}

/// The result of the comparison.
#[derive(Debug, Default)]
pub struct Verdict {
    /// One line per disagreement; empty if the families agree.
    pub mismatches: Vec<String>,
    /// One line per declared difference that was observed.
    pub differences: Vec<String>,
}

/// `open` is set for sockets that may fall back to TCP: they may also agree where a difference is
/// declared. It lists the observations that reveal a fallback, which must be exactly those.
pub fn compare(tcp: &Logs, sdp: &Logs, declared: &[Difference], open: Option<&[Turn]>) -> Verdict {
    let mut verdict = Verdict::default();
    for side in [Side::Server, Side::Client] {
        compare_side(side, tcp.of(side), sdp.of(side), (declared, open), &mut verdict);
    }
    for difference in declared {
        let mut seen = tcp.server.iter().chain(&tcp.client);
        if !seen.any(|seen| seen.label == difference.label) {
            let text = format!("declared difference \"{}\" was never observed", difference.label);
            verdict.mismatches.push(text);
        }
    }
    verdict
}

fn compare_side(
    side: Side,
    tcp: &[Observation],
    sdp: &[Observation],
    (declared, open): (&[Difference], Option<&[Turn]>),
    verdict: &mut Verdict,
) {
    for (tcp, sdp) in tcp.iter().zip(sdp) {
        if tcp.label != sdp.label {
            let text = format!("{side}: tcp saw \"{}\", sdp saw \"{}\"", tcp.label, sdp.label);
            verdict.mismatches.push(text);
            return;
        }
        let values = format!("{side}: {}: tcp {}, sdp {}", tcp.label, tcp.value, sdp.value);
        let turn = open.and_then(|turns| turns.iter().find(|turn| turn.label == tcp.label));
        if let Some(turn) = turn {
            let found = if turn.seen == sdp.value {
                &mut verdict.differences
            } else {
                &mut verdict.mismatches
            };
            found.push(format!("{values}, declared where it turns to TCP is {}", turn.seen));
            continue;
        }
        // TCP may answer differently by version of IP.
        let mut of_label = declared.iter().filter(|difference| difference.label == tcp.label);
        let first = of_label.clone().next();
        let seen = of_label.find(|one| one.tcp == tcp.value && one.sdp == sdp.value);
        match seen.or(first) {
            Some(difference) if difference.tcp == tcp.value && difference.sdp == sdp.value => {
                verdict.differences.push(format!("{values}: {}", difference.reason));
            }
            Some(_) if open.is_some() && tcp.value == sdp.value => {}
            Some(difference) => verdict.mismatches.push(format!(
                "{values}, declared are tcp {}, sdp {}",
                difference.tcp, difference.sdp
            )),
            None if tcp.value != sdp.value => verdict.mismatches.push(values),
            None => {}
        }
    }
    if tcp.len() != sdp.len() {
        let text = format!("{side}: {} observations on tcp, {} on sdp", tcp.len(), sdp.len());
        verdict.mismatches.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(values: &[(&str, &str)]) -> Logs {
        let seen = |&(label, value): &(&str, &str)| Observation {
            label: label.to_string(),
            value: value.to_string(),
        };
        Logs { server: values.iter().map(seen).collect(), client: Vec::new() }
    }

    const DOMAIN: Difference =
        Difference { label: "domain", tcp: "2", sdp: "27", reason: "the family itself" };

    #[test]
    fn equal_logs_agree() {
        let log = logs(&[("send", "5"), ("recv", "EAGAIN")]);
        assert!(compare(&log, &log, &[], None).mismatches.is_empty());
    }

    #[test]
    fn another_value_label_or_length_is_a_mismatch() {
        let tcp = logs(&[("send", "5")]);
        for sdp in [
            logs(&[("send", "4")]),
            logs(&[("recv", "5")]),
            logs(&[]),
            logs(&[("send", "5"), ("recv", "5")]),
        ] {
            assert_eq!(compare(&tcp, &sdp, &[], None).mismatches.len(), 1, "{sdp:?}");
        }
    }

    #[test]
    fn a_declared_difference_is_allowed_with_exactly_its_values() {
        let tcp = logs(&[("domain", "2")]);
        let right = compare(&tcp, &logs(&[("domain", "27")]), &[DOMAIN], None);
        assert!(right.mismatches.is_empty());
        assert_eq!(right.differences.len(), 1);
        for wrong in ["2", "28"] {
            let verdict = compare(&tcp, &logs(&[("domain", wrong)]), &[DOMAIN], None);
            assert_eq!(verdict.mismatches.len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_socket_that_turns_to_tcp_shows_what_is_declared_for_that() {
        let turn = [Turn { label: "get", seen: "EPERM, then 2" }];
        let tcp = logs(&[("domain", "2"), ("get", "2")]);
        for (value, wrong) in [("EPERM, then 2", 0), ("2", 1), ("EPERM", 1)] {
            let seen = logs(&[("domain", "2"), ("get", value)]);
            let verdict = compare(&tcp, &seen, &[DOMAIN], Some(&turn));
            assert_eq!(verdict.mismatches.len(), wrong, "{value}");
        }
    }

    #[test]
    fn a_declared_difference_that_is_never_observed_is_stale() {
        let log = logs(&[("send", "5")]);
        assert_eq!(compare(&log, &log, &[DOMAIN], None).mismatches.len(), 1);
    }
}
