// SPDX-License-Identifier: MIT

//! The grammar of `libsdp.conf`, as libsdp of OFED, Solaris and HP-UX read it:
//!
//! ```text
//! # comment
//! log [destination stderr|syslog|file NAME] [min-level N]
//! use sdp|tcp|both  server|listen|client|connect  PROGRAM  ADDRESS:PORTS
//! ```
//!
//! and one statement of our own, which those would refuse:
//!
//! ```text
//! async off|copy|block|receive|copy,receive|block,receive  PROGRAM
//! ```
//!
//! Each line is one statement, with keywords in lower case. PROGRAM is a shell pattern, ADDRESS is
//! `*` or an address with an optional prefix length, PORTS is `*`, a number or a range. Blanks are
//! allowed around `.`, `/`, `:` and `-`. Every other text is an error, which is reported with its
//! position.

use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// The transports that a connection may use.
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

impl Rule {
    /// The warning about a range that matches no ports, or fewer than written.
    pub(crate) fn odd_ports(&self) -> Option<String> {
        let (first, last) = self.ports;
        (first > last || last > ANY_PORT.1)
            .then(|| format!("line {}: no port is from {first} to {last}", self.line))
    }
}

/// An `async` statement: what `sdp_run --async` does with programs of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lending {
    /// As in `SDP_ASYNC`; `None` for off.
    pub(crate) way: Option<&'static CStr>,
    pub(crate) program: CString,
}

/// The ways of `async`, and of `SDP_ASYNC`.
const WAYS: [&CStr; 5] = [
    c"copy",
    c"block",
    c"receive",
    c"copy,receive",
    c"block,receive",
];

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
    Async(Lending),
}

/// A position in the text, and the error there.
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

/// The bytes without blanks at both ends.
fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes {
        if !is_blank(*first) {
            break;
        }
        bytes = rest;
    }
    while let [rest @ .., last] = bytes {
        if !is_blank(*last) {
            break;
        }
        bytes = rest;
    }
    bytes
}

impl<'a> Line<'a> {
    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError {
            line: self.number,
            column: at.saturating_add(1),
            message: message.into(),
        })
    }

    /// The next word: up to white space, or, unless it is a pattern, up to a comment. `None` at the
    /// end of the line.
    fn word(&mut self, is_pattern: bool) -> Option<Word<'a>> {
        self.skip_blanks();
        let rest = self.bytes.get(self.at..).unwrap_or_default();
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
            b"async" => Statement::Async(self.lending()?),
            _ => {
                return self.error(
                    word.at,
                    format!("'{}' where log, use or async belongs", word.text()),
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

    fn lending(&mut self) -> Result<Lending, SyntaxError> {
        let word = self.expect("off or a way", false)?;
        let way = WAYS.into_iter().find(|way| way.to_bytes() == word.bytes);
        if way.is_none() && word.bytes != b"off" {
            return self.error(
                word.at,
                format!(
                    "'{}' where off, copy, block, receive, copy,receive or block,receive belongs",
                    word.text()
                ),
            );
        }
        let word = self.expect("the program", true)?;
        let program = self.c_string(&word)?;
        Ok(Lending { way, program })
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
        let (addresses, ports) = self.addresses_and_ports()?;
        Ok(Rule {
            line: self.number,
            transport,
            role,
            program,
            addresses,
            ports,
        })
    }

    /// `ADDRESS[/PREFIX]:PORTS`, with optional blanks around each separator. The last colon
    /// precedes the ports.
    fn addresses_and_ports(&mut self) -> Result<(Addresses, (u32, u32)), SyntaxError> {
        self.skip_blanks();
        let rest = self.before_comment();
        if rest.is_empty() {
            return self.error(self.at, "the address and ports are missing");
        }
        let Some(colon) = rest.iter().rposition(|byte| *byte == b':') else {
            let end = self.at.saturating_add(trimmed(rest).len());
            return self.error(end, "':' and the ports are missing");
        };
        let address = rest.get(..colon).unwrap_or_default();
        let addresses = self.addresses(trimmed(address), self.at)?;
        self.at = self.at.saturating_add(colon).saturating_add(1);
        Ok((addresses, self.ports()?))
    }

    fn addresses(&self, bytes: &[u8], at: usize) -> Result<Addresses, SyntaxError> {
        if bytes == b"*" {
            return Ok(Addresses::Any);
        }
        let slash = bytes.iter().position(|byte| *byte == b'/');
        let (address, prefix) = bytes.split_at(slash.unwrap_or(bytes.len()));
        let Some(address) = address_of(trimmed(address)) else {
            return self.error(
                at,
                format!("'{}' is no address", String::from_utf8_lossy(address)),
            );
        };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let Some(digits) = prefix.get(1..) else {
            return Ok(addresses_from(address, longest));
        };
        let behind = trimmed(digits);
        let at = at.saturating_add(bytes.len().saturating_sub(behind.len()));
        let prefix = self.number(behind, at)?;
        match u8::try_from(prefix) {
            // libsdp treats prefix length 0 as not given.
            Ok(0) => Ok(addresses_from(address, longest)),
            Ok(prefix) if prefix <= longest => Ok(addresses_from(address, prefix)),
            _ => self.error(at, format!("a prefix has at most {longest} bits")),
        }
    }

    fn ports(&mut self) -> Result<(u32, u32), SyntaxError> {
        let (first, at) = self.up_to_dash();
        if first == b"*" {
            return Ok(ANY_PORT);
        }
        let first = self.number(first, at)?;
        self.skip_blanks();
        if self.before_comment().first() != Some(&b'-') {
            return Ok((first, first));
        }
        self.at = self.at.saturating_add(1);
        let (last, at) = self.up_to_dash();
        Ok((first, self.number(last, at)?))
    }

    fn skip_blanks(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        self.at = self.at.saturating_add(blanks);
    }

    /// The rest of the line, without a comment.
    fn before_comment(&self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.split(|byte| *byte == b'#').next().unwrap_or_default()
    }

    /// The next bytes up to a blank or a dash, and their position.
    fn up_to_dash(&mut self) -> (&'a [u8], usize) {
        self.skip_blanks();
        let at = self.at;
        let rest = self.before_comment();
        let ends = |byte: u8| is_blank(byte) || byte == b'-';
        let len = rest.iter().take_while(|byte| !ends(**byte)).count();
        self.at = at.saturating_add(len);
        (rest.get(..len).unwrap_or_default(), at)
    }

    /// A number of decimal digits only.
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

/// The addresses with this prefix. As in libsdp, IPv4's wildcard with any prefix length means every
/// address of both families.
fn addresses_from(address: IpAddr, prefix: u8) -> Addresses {
    if address == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        Addresses::Any
    } else {
        Addresses::Prefix(address, prefix)
    }
}

/// An address; an IPv4 address may have blanks beside its dots.
fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.contains('.') || text.contains(':') {
        return text.parse().ok();
    }
    let parts: Vec<_> = text
        .split('.')
        .map(|part| part.trim_matches([' ', '\t']))
        .collect();
    parts.join(".").parse().ok()
}

/// Every port.
pub(crate) const ANY_PORT: (u32, u32) = (0, u16::MAX as u32);

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
