// SPDX-License-Identifier: MIT

//! The grammar of `libsdp.conf`, as libsdp of OFED, Solaris and HP-UX read it:
//!
//! ```text
//! # comment
//! log [destination stderr|syslog|file NAME] [min-level N]
//! use sdp|tcp|both  server|listen|client|connect  PROGRAM  ADDRESS:PORTS
//! ```
//!
//! One statement a line, keywords in lower case. PROGRAM is a shell pattern,
//! ADDRESS is `*` or an address with an optional prefix length, PORTS is `*`,
//! a number or a range. What looks like an error is one, with its place.

use std::ffi::CString;
use std::fmt;
use std::net::IpAddr;

/// What a connection may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Sdp,
    Tcp,
    Both,
}

/// Which of the two lists a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The socket will listen; the rule is about its own address.
    Server,
    /// The socket will connect; the rule is about the peer's address.
    Client,
}

/// A set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    Any,
    Prefix(IpAddr, u8),
}

/// A `use` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) line: usize,
    pub(crate) transport: Transport,
    pub(crate) role: Role,
    pub(crate) program: CString,
    pub(crate) addresses: Addresses,
    /// First and last, both included.
    pub(crate) ports: (u32, u32),
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stderr,
    Syslog,
    File(CString),
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Log {
        destination: Option<Destination>,
        min_level: Option<u32>,
    },
    Use(Rule),
}

/// A place in the text, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Counted in bytes, from 1.
    pub(crate) column: usize,
    pub(crate) message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

/// All statements of a file, or its first error.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<Statement>, SyntaxError> {
    let mut statements = Vec::new();
    for (index, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
        let mut line = Line {
            number: index.saturating_add(1),
            bytes,
            at: 0,
        };
        if let Some(statement) = line.statement()? {
            statements.push(statement);
        }
    }
    Ok(statements)
}

/// A line, read from left to right.
struct Line<'a> {
    number: usize,
    bytes: &'a [u8],
    at: usize,
}

/// A word, and the column (from 0) where it begins.
struct Word<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Word<'_> {
    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

impl<'a> Line<'a> {
    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError {
            line: self.number,
            column: at.saturating_add(1),
            message: message.into(),
        })
    }

    /// The next word up to white space, and unless it is a pattern also up to a
    /// comment; `None` at the end of the line.
    fn word(&mut self, is_pattern: bool) -> Option<Word<'a>> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        self.at = self.at.saturating_add(blanks);
        let rest = rest.get(blanks..).unwrap_or_default();
        if matches!(rest.first(), None | Some(b'#')) {
            return None;
        }
        let ends = |byte: u8| is_blank(byte) || (byte == b'#' && !is_pattern);
        let len = rest.iter().take_while(|byte| !ends(**byte)).count();
        let word = Word {
            bytes: rest.get(..len).unwrap_or_default(),
            at: self.at,
        };
        self.at = self.at.saturating_add(len);
        Some(word)
    }

    fn expect(&mut self, what: &str, is_pattern: bool) -> Result<Word<'a>, SyntaxError> {
        match self.word(is_pattern) {
            Some(word) => Ok(word),
            None => self.error(self.at, format!("{what} is missing")),
        }
    }

    fn statement(&mut self) -> Result<Option<Statement>, SyntaxError> {
        let Some(word) = self.word(false) else {
            return Ok(None);
        };
        let statement = match word.bytes {
            b"log" => self.log()?,
            b"use" => Statement::Use(self.rule()?),
            _ => {
                return self.error(
                    word.at,
                    format!("'{}' where log or use belongs", word.text()),
                )
            }
        };
        match self.word(false) {
            None => Ok(Some(statement)),
            Some(extra) => self.error(
                extra.at,
                format!("'{}' behind a complete statement", extra.text()),
            ),
        }
    }

    fn log(&mut self) -> Result<Statement, SyntaxError> {
        let mut destination = None;
        let mut min_level = None;
        while let Some(word) = self.word(false) {
            match word.bytes {
                b"destination" => {
                    let kind = self.expect("stderr, syslog or file", false)?;
                    destination = Some(match kind.bytes {
                        b"stderr" => Destination::Stderr,
                        b"syslog" => Destination::Syslog,
                        b"file" => {
                            let name = self.expect("the name of the log file", true)?;
                            Destination::File(self.c_string(&name)?)
                        }
                        _ => {
                            return self.error(
                                kind.at,
                                format!("'{}' where stderr, syslog or file belongs", kind.text()),
                            )
                        }
                    });
                }
                b"min-level" => {
                    let level = self.expect("a level from 1 to 9", false)?;
                    min_level = Some(self.number(level.bytes, level.at)?);
                }
                _ => {
                    return self.error(
                        word.at,
                        format!("'{}' where destination or min-level belongs", word.text()),
                    )
                }
            }
        }
        Ok(Statement::Log {
            destination,
            min_level,
        })
    }

    fn rule(&mut self) -> Result<Rule, SyntaxError> {
        let word = self.expect("sdp, tcp or both", false)?;
        let transport = match word.bytes {
            b"sdp" => Transport::Sdp,
            b"tcp" => Transport::Tcp,
            b"both" => Transport::Both,
            _ => {
                return self.error(
                    word.at,
                    format!("'{}' where sdp, tcp or both belongs", word.text()),
                )
            }
        };
        let word = self.expect("server or client", false)?;
        let role = match word.bytes {
            b"server" | b"listen" => Role::Server,
            b"client" | b"connect" => Role::Client,
            _ => {
                return self.error(
                    word.at,
                    format!(
                        "'{}' where server, listen, client or connect belongs",
                        word.text()
                    ),
                )
            }
        };
        let word = self.expect("the program", true)?;
        let program = self.c_string(&word)?;
        let word = self.expect("the address and ports", false)?;
        let (addresses, ports) = self.addresses_and_ports(&word)?;
        Ok(Rule {
            line: self.number,
            transport,
            role,
            program,
            addresses,
            ports,
        })
    }

    /// `ADDRESS[/PREFIX]:PORTS`; the last colon is the one before the ports.
    fn addresses_and_ports(&self, word: &Word<'_>) -> Result<(Addresses, (u32, u32)), SyntaxError> {
        let Some(colon) = word.bytes.iter().rposition(|byte| *byte == b':') else {
            let end = word.at.saturating_add(word.bytes.len());
            return self.error(end, "':' and the ports are missing");
        };
        let (address, ports) = word.bytes.split_at(colon);
        let addresses = self.addresses(address, word.at)?;
        let ports = ports.get(1..).unwrap_or_default();
        let at = word.at.saturating_add(colon).saturating_add(1);
        Ok((addresses, self.ports(ports, at)?))
    }

    fn addresses(&self, bytes: &[u8], at: usize) -> Result<Addresses, SyntaxError> {
        if bytes == b"*" {
            return Ok(Addresses::Any);
        }
        let slash = bytes.iter().position(|byte| *byte == b'/');
        let (address, prefix) = bytes.split_at(slash.unwrap_or(bytes.len()));
        let parsed = std::str::from_utf8(address)
            .ok()
            .and_then(|text| text.parse::<IpAddr>().ok());
        let Some(address) = parsed else {
            return self.error(
                at,
                format!("'{}' is no address", String::from_utf8_lossy(address)),
            );
        };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let Some(digits) = prefix.get(1..) else {
            return Ok(Addresses::Prefix(address, longest));
        };
        let at = at
            .saturating_add(slash.unwrap_or_default())
            .saturating_add(1);
        let prefix = self.number(digits, at)?;
        match u8::try_from(prefix) {
            // libsdp takes 0 for a prefix that was not given.
            Ok(0) => Ok(Addresses::Prefix(address, longest)),
            Ok(prefix) if prefix <= longest => Ok(Addresses::Prefix(address, prefix)),
            _ => self.error(at, format!("a prefix has at most {longest} bits")),
        }
    }

    fn ports(&self, bytes: &[u8], at: usize) -> Result<(u32, u32), SyntaxError> {
        if bytes == b"*" {
            return Ok(ANY_PORT);
        }
        let dash = bytes.iter().position(|byte| *byte == b'-');
        let (first, last) = bytes.split_at(dash.unwrap_or(bytes.len()));
        let first = self.number(first, at)?;
        let Some(digits) = last.get(1..) else {
            return Ok((first, first));
        };
        let at = at
            .saturating_add(dash.unwrap_or_default())
            .saturating_add(1);
        Ok((first, self.number(digits, at)?))
    }

    /// Decimal digits, and nothing else.
    fn number(&self, bytes: &[u8], at: usize) -> Result<u32, SyntaxError> {
        let digits = bytes.iter().all(u8::is_ascii_digit);
        let parsed = std::str::from_utf8(bytes)
            .ok()
            .filter(|_| digits)
            .and_then(|text| text.parse().ok());
        match parsed {
            Some(number) => Ok(number),
            None => self.error(
                at,
                format!("'{}' is no number", String::from_utf8_lossy(bytes)),
            ),
        }
    }

    fn c_string(&self, word: &Word<'_>) -> Result<CString, SyntaxError> {
        match CString::new(word.bytes) {
            Ok(text) => Ok(text),
            Err(error) => self.error(word.at.saturating_add(error.nul_position()), "a null byte"),
        }
    }
}

/// Every port.
pub(crate) const ANY_PORT: (u32, u32) = (0, u16::MAX as u32);

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
