// SPDX-License-Identifier: GPL-2.0

//! The first states of every scene, for every build. `make explore` visits all states.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use sdp_sim::scene;

#[test]
fn no_interleaving_of_the_small_scenes_breaks_anything() {
    let mut states = 0;
    for scene in scene::all().unwrap() {
        match scene.search(2_000) {
            Ok(search) => states += search.states,
            Err(way) => panic!("{}: {}\n{:#?}", scene.name, way.fault, way.steps),
        }
    }
    assert!(states > 20_000, "{states} states");
}
