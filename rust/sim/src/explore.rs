// SPDX-License-Identifier: GPL-2.0

//! Every interleaving of a small scene: from each state, every possible next step, until there are
//! no new states.

use crate::{
    coverage::Coverage,
    fault::{Checked, Fault},
    op::{Op, Step},
    side::Side,
    world::World,
};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

/// A scene: each side's applications perform their script at any time; the link, completions and
/// the connection manager act in any order.
#[derive(Clone, Debug)]
pub struct Scene {
    /// For reports.
    pub name: &'static str,
    /// The fixed beginning.
    pub start: World,
    /// The operations of each side, in this order, interleaved with all other steps.
    pub scripts: [Vec<Op>; 2],
    /// Whether datagrams may be lost and links may break at any time.
    pub faults: bool,
    /// Whether timers may expire while other steps are possible.
    pub timers: bool,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Number of different states.
    pub states: usize,
    /// Number of moves between them.
    pub moves: usize,
    /// Number of states without a next step.
    pub ends: usize,
    /// Whether every state was visited within the limit.
    pub complete: bool,
    /// Pairs of state and event.
    pub coverage: Coverage,
}

/// The path to a fault: the steps from the start of the scene.
#[derive(Clone, Debug)]
pub struct Way {
    /// The fault.
    pub fault: Fault,
    /// The steps.
    pub steps: Vec<Step>,
}

#[derive(Clone)]
struct Node {
    world: World,
    /// The number of executed operations of each script.
    done: [usize; 2],
    way: Option<Rc<Last>>,
}

/// The last step of a path, and the path before it.
struct Last {
    step: Step,
    before: Option<Rc<Last>>,
}

fn steps_of(mut way: Option<&Rc<Last>>) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(last) = way {
        steps.push(last.step);
        way = last.before.as_ref();
    }
    steps.reverse();
    steps
}

impl Scene {
    /// Visits at most `limit` states.
    pub fn search(&self, limit: usize) -> Result<Search, Box<Way>> {
        let mut search = Search::default();
        let mut seen = HashSet::new();
        let mut text = String::new();
        let first = Node {
            world: self.start.clone(),
            done: [0; 2],
            way: None,
        };
        seen.insert(key(&first, &mut text));
        let mut open = vec![first];
        while let Some(node) = open.pop() {
            let mut moved = false;
            for (step, done) in self.steps(&node) {
                let mut next = node.clone();
                next.way = Some(Rc::new(Last {
                    step,
                    before: node.way.clone(),
                }));
                next.done = done;
                let did = next.world.apply(step).map_err(|fault| {
                    Box::new(Way {
                        fault,
                        steps: steps_of(next.way.as_ref()),
                    })
                })?;
                if !did && done == node.done {
                    continue;
                }
                moved |= is_of_its_own(step.op);
                search.moves += 1;
                search.coverage.merge(next.world.coverage());
                if seen.insert(key(&next, &mut text)) {
                    open.push(next);
                }
            }
            if !moved {
                search.ends += 1;
                self.end(&node, &mut search)?;
            }
            if seen.len() >= limit {
                search.states = seen.len();
                return Ok(search);
            }
        }
        search.states = seen.len();
        search.complete = true;
        Ok(search)
    }

    /// Called if no step is possible without the applications: they read and close, and both sides
    /// must end.
    fn end(&self, node: &Node, search: &mut Search) -> Result<(), Box<Way>> {
        let mut world = node.world.clone();
        let scripted = self.scripts.iter().zip(node.done);
        let left: Vec<Step> = Side::BOTH
            .into_iter()
            .zip(scripted)
            .flat_map(|(side, (script, done))| {
                script
                    .iter()
                    .skip(done)
                    .map(move |op| Step { side, op: *op })
            })
            .collect();
        let finish = || -> Checked {
            for step in left {
                world.apply(step)?;
                world.rest()?;
            }
            world.finish_anyhow()
        };
        let result = finish().map_err(|fault| {
            Box::new(Way {
                fault,
                steps: steps_of(node.way.as_ref()),
            })
        });
        search.coverage.merge(world.coverage());
        result
    }

    fn steps(&self, node: &Node) -> Vec<(Step, [usize; 2])> {
        let mut all = Vec::new();
        for (index, side) in Side::BOTH.into_iter().enumerate() {
            let script = self.scripts.get(index);
            let done = node.done.get(index).copied().unwrap_or(0);
            if let Some(op) = script.and_then(|script| script.get(done)) {
                let mut after = node.done;
                if let Some(count) = after.get_mut(index) {
                    *count += 1;
                }
                all.push((Step { side, op: *op }, after));
            }
            let mut own = vec![
                Op::Carry(1),
                Op::Handle(1),
                Op::Complete(1),
                Op::Mad(0),
                Op::GiveUp,
            ];
            if self.timers {
                let timers = node.world.side(side).timers().len();
                own.extend((0..timers).filter_map(|at| u8::try_from(at).ok().map(Op::LongTimeout)));
            }
            if self.faults {
                own.extend([Op::Mad(1), Op::LoseMad(0), Op::Break]);
            }
            all.extend(own.into_iter().map(|op| (Step { side, op }, node.done)));
        }
        all
    }
}

/// Whether the step needs no application, timer or fault.
fn is_of_its_own(op: Op) -> bool {
    matches!(
        op,
        Op::Carry(_) | Op::Handle(_) | Op::Complete(_) | Op::Mad(_)
    )
}

fn key(node: &Node, text: &mut String) -> u64 {
    node.world.describe(text);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    node.done.hash(&mut hasher);
    hasher.finish()
}
