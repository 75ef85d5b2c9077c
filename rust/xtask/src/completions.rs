// SPDX-License-Identifier: GPL-2.0

//! Shell completions for the tools, made from their own command lines.

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::{generate_to, Shell};
use std::{fs, path::Path};

/// The modules with the command lines of these tools.
macro_rules! tools {
    ($($name:ident in $path:literal;)*) => {
        $(
            #[path = $path]
            #[allow(dead_code, reason = "the fields are for the tool")]
            mod $name;
        )*

        fn commands() -> Vec<Command> {
            vec![$($name::Arguments::command()),*]
        }
    };
}

tools! {
    rlo_bridge in "../../bridge/src/arguments.rs";
    sdp_chk in "../../preload/src/bin/sdp_chk/arguments.rs";
    sdp_run in "../../preload/src/bin/sdp_run/arguments.rs";
    sdp_ss in "../../ss/src/arguments.rs";
}

/// Writes the files of all shells into a directory, which is created.
pub(crate) fn write(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    for mut command in commands() {
        let name = command.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let file = generate_to(shell, &mut command, &name, directory)?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_file_for_every_shell_with_its_options() {
        let directory = std::env::temp_dir().join(format!("completions-{}", std::process::id()));
        write(&directory).unwrap();
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        for (tool, option) in [
            ("rlo_bridge", "version"),
            ("sdp_run", "cgroup"),
            ("sdp_chk", "server"),
            ("sdp_ss", "summary"),
        ] {
            for file in [
                format!("{tool}.bash"),
                format!("_{tool}"),
                format!("{tool}.fish"),
            ] {
                assert!(read(&file).contains(option), "{file}");
            }
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
