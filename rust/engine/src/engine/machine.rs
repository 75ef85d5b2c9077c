// SPDX-License-Identifier: GPL-2.0

//! State machines written as tables.

/// An event that the current state has no move for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IllegalMove;

/// The meaning of a refused move for its caller.
pub(crate) trait Moved {
    /// Nothing: the state decides whether there is anything to do. A move that has
    /// to be legal goes through `Connection::must` instead.
    fn if_legal(self);
}

impl Moved for Result<(), IllegalMove> {
    fn if_legal(self) {}
}

/// Declares a state enum and its legal moves.
///
/// Each line `on_event: From | From => To, From => To;` becomes a method that
/// makes the move or returns [`IllegalMove`] and changes nothing. `STATES` and
/// `MOVES` list the table, so that tests can walk every pair.
macro_rules! machine {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Name:ident { $( $(#[$state_meta:meta])* $State:ident ),+ $(,)? }
        $( $(#[$event_meta:meta])* $event:ident: $( $($From:ident)|+ => $To:ident ),+; )+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $Name { $( $(#[$state_meta])* $State ),+ }

        #[allow(dead_code, reason = "tests walk the tables of private machines as well")]
        impl $Name {
            /// Every state, in the order of the declaration.
            $vis const STATES: &'static [$Name] = &[ $( $Name::$State ),+ ];

            /// Every legal move: event, from, to.
            $vis const MOVES: &'static [(&'static str, $Name, $Name)] = &[
                $( $( $( (stringify!($event), $Name::$From, $Name::$To), )+ )+ )+
            ];

            /// Every event, by name.
            #[cfg(test)]
            pub(crate) const EVENTS: &'static [(
                &'static str,
                fn(&mut $Name) -> Result<(), $crate::engine::machine::IllegalMove>,
            )] = &[ $( (stringify!($event), $Name::$event) ),+ ];

            $(
                $(#[$event_meta])*
                pub(crate) fn $event(
                    &mut self,
                ) -> Result<(), $crate::engine::machine::IllegalMove> {
                    *self = match *self {
                        $( $( $Name::$From )|+ => $Name::$To, )+
                        _ => return Err($crate::engine::machine::IllegalMove),
                    };
                    Ok(())
                }
            )+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::IllegalMove;
    use crate::engine::conn::machines::{
        Ask, Cancel, DisConn, HalfMode, Hold, OfferState, RunState, State, TargetState,
    };
    use std::vec::Vec;

    /// Every pair of a state and an event moves as the table says or not at
    /// all.
    macro_rules! walk {
        ($($Name:ident),+) => { $( {
            let mut moves = 0;
            for (name, event) in $Name::EVENTS {
                for from in $Name::STATES {
                    let listed: Vec<$Name> = $Name::MOVES
                        .iter()
                        .filter(|(event, start, _)| event == name && start == from)
                        .map(|(_, _, to)| *to)
                        .collect();
                    let mut state = *from;
                    match (event(&mut state), listed.as_slice()) {
                        (Ok(()), [to]) => assert_eq!(state, *to),
                        (Err(IllegalMove), []) => assert_eq!(state, *from),
                        (result, listed) => panic!("{name} in {from:?}: {result:?}, {listed:?}"),
                    }
                    moves += listed.len();
                }
            }
            assert_eq!(moves, $Name::MOVES.len());
        } )+ };
    }

    #[test]
    fn machines_move_as_their_tables_say() {
        walk!(
            State,
            DisConn,
            HalfMode,
            RunState,
            Hold,
            OfferState,
            TargetState,
            Cancel,
            Ask
        );
    }
}
