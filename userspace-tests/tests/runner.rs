// SPDX-License-Identifier: MIT
//! Tests of the runner: it must report a faulty case as a failure.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (String, Option<i32>) {
    let Output { stdout, stderr, status } = Command::new(env!("CARGO_BIN_EXE_sock-tests"))
        .args(arguments)
        .output()
        .expect("the test program starts");
    let mut text = String::from_utf8_lossy(&stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&stderr));
    (text, status.code())
}

fn broken(name: &str) -> (String, Option<i32>) {
    // Only one case shall reach the limit; a slow machine must not end the others by it, and this one not before
    // both of its processes have got to their last points.
    let timeout = if name == "never_ends" { "5" } else { "60" };
    run(&["--broken", "--loopback", "--timeout", timeout, "--pick", name])
}

#[track_caller]
fn expect(name: &str, code: i32, parts: &[&str]) {
    let (text, status) = broken(name);
    assert_eq!(status, Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "no \"{part}\" in:\n{text}");
    }
}

#[test]
fn a_case_that_agrees_passes() {
    expect("passes", 0, &["ok 1 tcp", "ok 2 sdp", "ok 3 agreement", "\nok 1 passes", "1 passed"]);
}

#[test]
fn a_wrong_assertion_is_reported_with_its_place() {
    expect(
        "fails_an_assertion",
        1,
        &["sum: 2 where 3 was expected (src/cases/broken.rs", "not ok 1 fails_an_assertion"],
    );
}

#[test]
fn another_value_on_sdp_is_a_mismatch_and_both_logs_are_shown() {
    expect(
        "observes_another_value",
        1,
        &[
            "mismatch: server: family: tcp tcp, sdp sdp",
            "tcp server saw family = tcp",
            "sdp server saw family = sdp",
            "not ok 3 agreement",
        ],
    );
}

#[test]
fn an_observation_that_one_family_lacks_is_a_mismatch() {
    expect("observes_more_on_one_family", 1, &["0 observations on tcp, 1 on sdp"]);
}

#[test]
fn a_declared_difference_passes_and_its_reason_is_printed() {
    expect("differs_as_declared", 0, &["differs on purpose: server: family: tcp tcp, sdp sdp: it"]);
}

#[test]
fn a_difference_other_than_the_declared_one_fails() {
    expect("differs_in_another_way_than_declared", 1, &["declared are tcp tcp, sdp xyz"]);
}

#[test]
fn a_case_that_hangs_is_ended_and_both_last_points_are_named() {
    expect(
        "never_ends",
        1,
        &[
            "server: TIMEOUT, last: waits for \"a point that never comes\"",
            "client: TIMEOUT, last: passed \"the last point\"",
        ],
    );
}

#[test]
fn a_role_that_is_killed_is_reported() {
    expect("dies_of_a_signal", 1, &["client: killed by signal 6", "server: the peer ended"]);
}

#[test]
fn a_role_that_ends_early_is_reported() {
    expect("ends_without_a_word", 1, &["client: ended early with status 7"]);
}

#[test]
fn a_role_out_of_step_is_reported() {
    expect("speaks_out_of_order", 1, &["said \"second\" where \"first\" was expected"]);
}

#[test]
fn an_unknown_name_is_refused() {
    let (text, status) = run(&["--loopback", "--pick", "no_such_case"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("no test is called \"no_such_case\""), "{text}");
}

#[test]
fn a_missing_namespace_is_refused_with_its_path() {
    let (text, status) = run(&["--server-ns", "no-such-namespace"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("/run/netns/no-such-namespace"), "{text}");
}

fn listed(arguments: &[&str]) -> Vec<String> {
    let (text, status) = run(&[&["--list"], arguments].concat());
    assert_eq!(status, Some(0), "{text}");
    text.lines().map(str::to_string).collect()
}

#[test]
fn a_part_of_the_tests_has_all_that_make_packets_late() {
    let late = "remapped_huge_pages_stay".to_string();
    let all = listed(&[]);
    let part = listed(&["--one-of", "4"]);
    assert!(part.len() > all.len() / 6 && part.len() < all.len() / 2, "{} of all", part.len());
    assert!(part.contains(&late) && part.iter().all(|name| all.contains(name)), "{part:?}");
    assert!(!listed(&["--device", "rlo"]).contains(&late), "no packet, so none is late");
}
