// SPDX-License-Identifier: MIT
//! The calls of `include/syzkaller/socket_sdp.txt`, which syzkaller reads as well: so neither fuzzer
//! forgets a call. The numbers are from the headers for programs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../../../include/syzkaller/socket_sdp.txt");
const HEADERS: [&str; 2] = [
    include_str!("../../../../include/uapi/linux/sdp.h"),
    include_str!("../../../../include/uapi/linux/sdp_diag.h"),
];

/// Numbers of other headers.
const OTHERS: [(&str, u64); 7] = [
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("IPPROTO_IP", 0),
    ("IPPROTO_TCP", 6),
    ("MSG_ZEROCOPY", 0x400_0000),
    ("SOCK_STREAM", 1),
    ("SOL_TCP", 6),
];

/// All calls.
pub static CALLS: LazyLock<Vec<Call>> = LazyLock::new(|| read(TEXT).expect("the description"));

/// One call.
#[derive(Debug)]
pub struct Call {
    pub name: String,
    /// The number of an option.
    pub option: Option<i32>,
    /// The value of an option that is set, or the place for one.
    pub value: Vec<Field>,
    /// The attributes of a message of netlink.
    pub attributes: Vec<(u16, Field)>,
    /// The other numbers of the call, in their order.
    pub numbers: Vec<Field>,
}

/// A number in a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub len: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Between these, or any number.
    Number(Option<(u64, u64)>),
    /// Any of these bits.
    Flags(Vec<u64>),
    Constant(u64),
    /// The address of a struct of that length.
    Address(usize),
    /// A descriptor of an eventfd, or -1.
    Event,
}

/// A call that can be made, and no list of values or struct.
fn is_call(line: &str) -> bool {
    line.split('(').next().is_some_and(|name| name.contains('$')) && line.contains('(')
}

/// The parts of `text` between commas outside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[begin..].trim());
    found.retain(|part| !part.is_empty());
    found
}

/// `ptr[in, x]` as `ptr` and its parameters.
fn split(kind: &str) -> (&str, Vec<&str>) {
    match kind.split_once('[') {
        Some((name, rest)) => (name, parts(rest.strip_suffix(']').unwrap_or(rest))),
        None => (kind, Vec::new()),
    }
}

/// A description: structs and unions by their names with their members, lists of values, numbers.
struct Description {
    structs: BTreeMap<String, Vec<String>>,
    lists: BTreeMap<String, Vec<u64>>,
    numbers: BTreeMap<String, u64>,
}

/// The numbers that a header defines, enumerations included.
fn numbers_of(header: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut next = 0;
    for line in header.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("#define"), Some(name), Some(value)) => {
                let number = value.strip_prefix("0x").map_or_else(
                    || value.parse().ok(),
                    |digits| u64::from_str_radix(digits, 16).ok(),
                );
                found.extend(number.map(|number| (name.into(), number)));
            }
            (Some("enum"), ..) => next = 0,
            (Some(name), ..) if name.ends_with(',') && line.starts_with('\t') => {
                found.insert(name.trim_end_matches(',').into(), next);
                next += 1;
            }
            _ => {}
        }
    }
    found
}

impl Description {
    fn new(text: &str) -> Option<Self> {
        let mut this = Self {
            structs: BTreeMap::new(),
            lists: BTreeMap::new(),
            numbers: OTHERS.map(|(name, number)| (name.into(), number)).into(),
        };
        for header in HEADERS {
            this.numbers.extend(numbers_of(header));
        }
        let mut open: Option<String> = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = &open {
                if line.starts_with(['}', ']']) {
                    open = None;
                } else {
                    let (_, kind) = line.trim().split_once(char::is_whitespace)?;
                    this.structs.get_mut(name)?.push(kind.trim().into());
                }
            } else if let Some(name) = line.strip_suffix(" {").or(line.strip_suffix(" [")) {
                this.structs.insert(name.into(), Vec::new());
                open = Some(name.into());
            } else if let Some((name, values)) = line.split_once(" = ") {
                let values: Option<_> =
                    parts(values).into_iter().map(|value| this.number(value)).collect();
                this.lists.insert(name.into(), values?);
            }
        }
        Some(this)
    }

    fn number(&self, text: &str) -> Option<u64> {
        text.parse().ok().or_else(|| self.numbers.get(text).copied())
    }

    /// The length of a number.
    fn len(kind: &str) -> Option<usize> {
        match split(kind).0 {
            "int8" => Some(1),
            "int16" => Some(2),
            "int32" => Some(4),
            "int64" | "intptr" => Some(8),
            _ => None,
        }
    }

    /// The numbers that a type consists of.
    fn fields(&self, kind: &str) -> Option<Vec<Field>> {
        let (name, parameters) = split(kind);
        if let Some(len) = Self::len(name) {
            let range = parameters.first().and_then(|range| range.split_once(':'));
            let range = range.map(|(low, high)| Some((self.number(low)?, self.number(high)?)));
            return Some(vec![Field { len, kind: Kind::Number(range.unwrap_or(None)) }]);
        }
        let one = |len, kind| Some(vec![Field { len, kind }]);
        let base = || parameters.last().and_then(|base| Self::len(base));
        match name {
            "const" => one(base().unwrap_or(8), Kind::Constant(self.number(parameters.first()?)?)),
            "flags" => {
                let list = self.lists.get(*parameters.first()?);
                // A list that syzkaller has itself stands for any bits here.
                let kind = list.map_or(Kind::Number(None), |list| Kind::Flags(list.clone()));
                one(base().unwrap_or(8), kind)
            }
            "ptr64" => {
                let target = self.fields(parameters.get(1)?).unwrap_or_default();
                one(8, Kind::Address(target.iter().map(|field| field.len).sum()))
            }
            "len" => one(base().unwrap_or(8), Kind::Number(None)),
            "fd_event" => one(4, Kind::Event),
            "array" => {
                let element = self.fields(parameters.first()?)?;
                let count = usize::try_from(self.number(parameters.get(1)?)?).ok()?;
                Some(vec![element; count].concat())
            }
            _ => {
                let members = self.structs.get(name)?;
                let fields: Option<Vec<_>> =
                    members.iter().map(|member| self.fields(member)).collect();
                Some(fields?.concat())
            }
        }
    }

    fn call(&self, line: &str) -> Option<Call> {
        let (name, rest) = line.split_once('(')?;
        let (arguments, _) = rest.rsplit_once(')')?;
        let mut call = Call {
            name: name.into(),
            option: None,
            value: Vec::new(),
            attributes: Vec::new(),
            numbers: Vec::new(),
        };
        for argument in parts(arguments) {
            let (argument, kind) = argument.split_once(' ')?;
            let (form, parameters) = split(kind);
            match (argument, form) {
                ("optname", "const") => {
                    call.option = i32::try_from(self.number(parameters.first()?)?).ok();
                }
                ("optval", "ptr") => call.value = self.fields(parameters.get(1)?)?,
                ("msg", _) => call.attributes = self.attributes(kind)?,
                (_, "const" | "flags") => call.numbers.extend(self.fields(kind)?),
                _ => {}
            }
        }
        Some(call)
    }

    /// The attributes of a message of netlink: `nlattr[NUMBER, TYPE]` in its policy.
    fn attributes(&self, kind: &str) -> Option<Vec<(u16, Field)>> {
        let Some((_, policy)) = kind.rsplit_once(' ') else { return Some(Vec::new()) };
        let Some(members) = self.structs.get(policy.trim_end_matches(']')) else {
            return Some(Vec::new());
        };
        let mut found = Vec::new();
        for member in members {
            let (form, parameters) = split(member);
            if form == "nlattr" {
                let number = u16::try_from(self.number(parameters.first()?)?).ok()?;
                found.push((number, self.fields(parameters.get(1)?)?.into_iter().next()?));
            }
        }
        Some(found)
    }
}

fn read(text: &str) -> Option<Vec<Call>> {
    let description = Description::new(text)?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && is_call(line));
    lines.map(|line| description.call(line)).collect()
}

/// The calls with a name that begins so.
pub fn calls(begin: &str) -> Vec<&'static Call> {
    CALLS.iter().filter(|call| call.name.starts_with(begin)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sdp_uapi as uapi;

    fn of(name: &str) -> &'static Call {
        CALLS.iter().find(|call| call.name == name).expect(name)
    }

    fn size(fields: &[Field]) -> usize {
        fields.iter().map(|field| field.len).sum()
    }

    #[test]
    fn values_have_the_lengths_of_the_header() {
        let description = Description::new(TEXT).expect("it is readable");
        let lengths = [
            ("sdp_borrow", size_of::<uapi::sdp_borrow>()),
            ("sdp_borrow_counter", size_of::<uapi::sdp_borrow_counter>()),
            ("sdp_borrow_wait", size_of::<uapi::sdp_borrow_wait>()),
            ("sdp_borrow_info", size_of::<uapi::sdp_borrow_info>()),
            ("sdp_borrowed", size_of::<uapi::sdp_borrowed>()),
            ("sdp_borrow_range", size_of::<uapi::sdp_borrow_range>()),
            ("sdp_ahead", size_of::<uapi::sdp_ahead>()),
            ("sdp_ahead_counter", size_of::<uapi::sdp_ahead_counter>()),
            ("sdp_traffic", size_of::<uapi::sdp_traffic>()),
        ];
        for (name, len) in lengths {
            assert_eq!(size(&description.fields(name).expect(name)), len, "{name}");
        }
        let structs = HEADERS[0].matches("\nstruct sdp_").count();
        assert_eq!(lengths.len(), structs, "a struct of the header is missing here");
    }

    #[test]
    fn every_option_of_the_header_is_described() {
        let numbers = numbers_of(HEADERS[0]);
        let options: Vec<_> =
            numbers.iter().filter(|(_, number)| (80..=94).contains(*number)).collect();
        assert_eq!(options.len(), 14, "{options:?}");
        for (name, number) in options {
            let number = i32::try_from(*number).expect("it is small");
            let found = CALLS.iter().filter(|call| call.option == Some(number));
            let names: Vec<_> = found.map(|call| call.name.as_str()).collect();
            let has = |begin: &str| names.contains(&format!("{begin}${name}").as_str());
            // An option that is "get only" or "set only" has one of both.
            assert!(has("setsockopt") || has("getsockopt"), "{name} is not described");
        }
    }

    #[test]
    fn every_attribute_of_a_request_is_described() {
        let attributes: Vec<_> =
            of("sendmsg$SDP_DIAG").attributes.iter().map(|(number, _)| *number).collect();
        let numbers = numbers_of(HEADERS[1]);
        let wanted = ["SDP_DIAG_STATES", "SDP_DIAG_SHOW"].map(|name| numbers[name] as u16);
        assert_eq!(attributes, wanted);
        // The header marks them.
        assert_eq!(HEADERS[1].matches("of a request:").count(), wanted.len());
    }

    #[test]
    fn values_are_read_as_they_are_meant() {
        let transport = &of("setsockopt$SDP_TRANSPORT").value;
        assert_eq!(*transport, [Field { len: 4, kind: Kind::Flags(vec![0, 1, 2]) }]);
        let borrow = &of("setsockopt$SDP_BORROW").value;
        assert_eq!(borrow[0], Field { len: 8, kind: Kind::Address(8) });
        assert_eq!(borrow[1].kind, Kind::Event);
        assert_eq!(borrow[3].kind, Kind::Number(Some((0, 1 << 20))));
        assert_eq!(borrow.last().map(|field| &field.kind), Some(&Kind::Constant(0)));
        let door = of("socket$inet_sdp").numbers.iter().map(|field| &field.kind);
        let numbers: Vec<_> = door.collect();
        assert_eq!(numbers, [&Kind::Constant(2), &Kind::Constant(1), &Kind::Constant(257)]);
    }
}
