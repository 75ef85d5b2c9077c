// SPDX-License-Identifier: GPL-2.0

//! Runs random histories, replays one, or explores all histories of a small scene.

use anyhow::{bail, Result};
use clap::{Parser, Subcommand};
use sdp_sim::{
    coverage::Coverage,
    run::{History, Shown},
    scene,
    story::Stranger,
};
use std::{thread, time::Instant};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Plays the histories of many seeds.
    Run {
        /// Number of seeds
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Number of threads
        #[arg(long, default_value_t = 1)]
        threads: u64,
    },
    /// Plays the history of one seed again, and shows what crosses.
    Replay {
        /// The seed that a failing run has printed
        seed: u64,
    },
    /// Visits every state of the small scenes.
    Explore {
        /// Maximum number of states of one scene
        #[arg(long, default_value_t = 300_000)]
        limit: usize,
        /// Only scenes with this in their name.
        #[arg(default_value = "")]
        name: String,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Run {
            seeds,
            from,
            threads,
        } => run(from, seeds, threads.max(1)),
        Task::Replay { seed } => replay(seed),
        Task::Explore { limit, name } => explore(limit, &name),
    }
}

#[derive(Default)]
struct Total {
    steps: u64,
    coverage: Coverage,
    failed: Option<u64>,
}

/// Two engines, and one engine with each stranger, all from the same seed.
fn all(seed: u64) -> Option<Shown> {
    let mut shown = History::of_seed(seed).play().ok()?;
    for who in Stranger::ALL {
        shown.add(&who.meet_seed(seed).ok()?);
    }
    Some(shown)
}

fn some(seeds: impl Iterator<Item = u64>) -> Total {
    let mut total = Total::default();
    for seed in seeds {
        match all(seed) {
            Some(shown) => {
                total.steps += shown.steps;
                total.coverage.merge(&shown.coverage);
            }
            None => {
                total.failed = Some(seed);
                break;
            }
        }
    }
    total
}

fn run(from: u64, seeds: u64, threads: u64) -> Result<()> {
    let start = Instant::now();
    let mut total = Total::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let own = (first..seeds).step_by(usize::try_from(threads).unwrap_or(1));
                scope.spawn(move || some(own.map(|n| from + n)))
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => {
                    total.steps += part.steps;
                    total.coverage.merge(&part.coverage);
                    total.failed = total.failed.or(part.failed);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    if let Some(seed) = total.failed {
        return replay(seed);
    }
    let seconds = start.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let rate = total.steps as f64 / seconds / 1e6;
    println!(
        "{seeds} histories, {} steps in {seconds:.1} s: {rate:.2} million steps/s",
        total.steps
    );
    report(&total.coverage)
}

fn report(coverage: &Coverage) -> Result<()> {
    let compared = coverage.compare();
    println!(
        "{} of {} legal pairs of state and event; {} refused ones",
        compared.reached, compared.legal, compared.refused
    );
    for pair in &compared.missing {
        println!("  never: {pair}");
    }
    for pair in &compared.stale {
        println!("  listed as unreachable, and is not: {pair}");
    }
    println!(
        "{} pairs cannot be reached, see unreachable.txt",
        compared.excused
    );
    Ok(())
}

fn replay(seed: u64) -> Result<()> {
    match History::of_seed(seed).check() {
        Ok(shown) => println!("two engines: {} steps, nothing is wrong", shown.steps),
        Err(failure) => {
            println!("{failure}");
            return again(seed);
        }
    }
    for who in Stranger::ALL {
        match who.meet_seed(seed) {
            Ok(shown) => println!("{who:?}: {} steps, nothing is wrong", shown.steps),
            Err(told) => {
                println!("{told}");
                return again(seed);
            }
        }
    }
    Ok(())
}

fn again(seed: u64) -> Result<()> {
    bail!("seed {seed} fails; again: cargo run --release -p sdp-sim -- replay {seed}")
}

fn explore(limit: usize, name: &str) -> Result<()> {
    let mut coverage = Coverage::default();
    let mut states = 0;
    for scene in scene::all()?.iter().filter(|s| s.name.contains(name)) {
        let start = Instant::now();
        match scene.search(limit) {
            Ok(search) => {
                println!(
                    "{:<40} {:>8} states {:>9} moves {:>7} ends  {}  {:.1} s",
                    scene.name,
                    search.states,
                    search.moves,
                    search.ends,
                    if search.complete { "all" } else { "cut" },
                    start.elapsed().as_secs_f64()
                );
                states += search.states;
                coverage.merge(&search.coverage);
            }
            Err(way) => {
                for step in &way.steps {
                    println!("  {step}");
                }
                bail!("{}: {}", scene.name, way.fault);
            }
        }
    }
    println!("{states} states");
    report(&coverage)
}
