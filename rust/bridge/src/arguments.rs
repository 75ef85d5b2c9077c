// SPDX-License-Identifier: MIT

//! The command line.

use clap::Parser;

/// Give each container on a bridge an rlo device, until a signal ends this.
#[derive(Parser, Debug)]
#[command(name = "rlo_bridge", version)]
pub(crate) struct Arguments {
    /// The bridge; it may come later, and go
    #[arg(value_name = "BRIDGE", value_parser = interface)]
    pub(crate) bridge: String,
}

/// A name that the kernel accepts for an interface.
fn interface(name: &str) -> Result<String, &'static str> {
    let is_bad = |c: char| c == '/' || c == ':' || c == '%' || c.is_ascii_whitespace();
    if name.is_empty() || name.len() > 15 || name.contains(is_bad) || [".", ".."].contains(&name) {
        return Err("no interface can have this name");
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_bridge_is_an_interface() {
        for name in ["podman0", "br-4f2a", "a.1"] {
            let parsed = Arguments::try_parse_from(["rlo_bridge", name]);
            assert!(parsed.is_ok_and(|words| words.bridge == name));
        }
        for name in ["", "..", "br/4f", "a b", "sixteen-letters-", "a%d"] {
            assert!(
                Arguments::try_parse_from(["rlo_bridge", name]).is_err(),
                "{name:?}"
            );
        }
    }
}
