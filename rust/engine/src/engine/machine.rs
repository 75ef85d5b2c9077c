// SPDX-License-Identifier: GPL-2.0

//! State machines written as tables.

/// An event that the current state has no move for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IllegalMove;

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
