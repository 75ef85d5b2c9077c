// SPDX-License-Identifier: MIT

//! Valid and invalid texts of libsdp.conf, and the errors reported.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

use super::*;
use proptest::prelude::*;

fn rules(text: &str) -> Vec<Rule> {
    parse(text.as_bytes())
        .expect("it parses")
        .into_iter()
        .filter_map(|statement| match statement {
            Statement::Use(rule) => Some(rule),
            Statement::Log { .. } | Statement::Async(_) => None,
        })
        .collect()
}

fn error(text: &str) -> (usize, usize, String) {
    let error = parse(text.as_bytes()).expect_err("it does not parse");
    (error.line, error.column, error.message)
}

#[test]
fn async_has_a_way_and_a_program() {
    let statements =
        parse(b"async off redis*\nasync block,receive p?g # both\n").expect("it parses");
    let lending = |way, program: &CStr| {
        Statement::Async(Lending {
            way,
            program: program.into(),
        })
    };
    assert_eq!(
        statements,
        [
            lending(None, c"redis*"),
            lending(Some(c"block,receive"), c"p?g")
        ]
    );
    let belongs = "off, copy, block, receive, copy,receive or block,receive belongs";
    for wrong in ["on", "copy,block", "receive,copy", "Copy"] {
        assert_eq!(
            error(&format!("async {wrong} *")),
            (1, 7, format!("'{wrong}' where {belongs}"))
        );
    }
    assert_eq!(error("async"), (1, 6, "off or a way is missing".into()));
    assert_eq!(
        error("async copy"),
        (1, 11, "the program is missing".into())
    );
    assert_eq!(
        error("async copy a b"),
        (1, 14, "'b' behind a complete statement".into())
    );
}

#[test]
fn the_file_that_libsdp_came_with() {
    let statements = parse(
        b"# libsdp.conf\n\
          \n\
          log min-level 9 destination file libsdp.log\n\
          \t # indented\n\
          use both server * *:*\n\
          use both client * *:*\n",
    )
    .expect("it parses");
    assert_eq!(statements.len(), 3);
    assert_eq!(
        statements[0],
        Statement::Log {
            destination: Some(Destination::File(c"libsdp.log".into())),
            min_level: Some(9),
        }
    );
    assert_eq!(
        statements[2],
        Statement::Use(Rule {
            line: 6,
            transport: Transport::Both,
            role: Role::Client,
            program: c"*".into(),
            addresses: Addresses::Any,
            ports: ANY_PORT,
        })
    );
}

#[test]
fn both_words_for_a_role() {
    let roles: Vec<_> = rules(
        "use sdp server a *:1\nuse sdp listen a *:1\nuse sdp client a *:1\nuse sdp connect a *:1\n",
    )
    .iter()
    .map(|rule| rule.role)
    .collect();
    assert_eq!(
        roles,
        [Role::Server, Role::Server, Role::Client, Role::Client]
    );
}

#[test]
fn addresses_prefixes_and_ports() {
    let cases = [
        ("*:*", Addresses::Any, ANY_PORT),
        ("*:0", Addresses::Any, (0, 0)),
        (
            "192.168.1.2:80",
            Addresses::Prefix("192.168.1.2".parse().expect("v4"), 32),
            (80, 80),
        ),
        (
            "10.0.0.0/8:1024-65535",
            Addresses::Prefix("10.0.0.0".parse().expect("v4"), 8),
            (1024, 65535),
        ),
        (
            "fd00::/8:*",
            Addresses::Prefix("fd00::".parse().expect("v6"), 8),
            ANY_PORT,
        ),
        (
            "::1:5001",
            Addresses::Prefix("::1".parse().expect("v6"), 128),
            (5001, 5001),
        ),
        (
            "2001:db8::1/64:7-9",
            Addresses::Prefix("2001:db8::1".parse().expect("v6"), 64),
            (7, 9),
        ),
        (
            "10 . 1. 2 .3 / 16 : 5000 - 6000",
            Addresses::Prefix("10.1.2.3".parse().expect("v4"), 16),
            (5000, 6000),
        ),
        (
            "fd00::1 / 8\t:\t*",
            Addresses::Prefix("fd00::1".parse().expect("v6"), 8),
            ANY_PORT,
        ),
        ("* : *", Addresses::Any, ANY_PORT),
        ("* :7#-9", Addresses::Any, (7, 7)),
        ("0.0.0.0:*", Addresses::Any, ANY_PORT),
        ("0.0.0.0/0:80", Addresses::Any, (80, 80)),
        ("0.0.0.0 / 8 :*", Addresses::Any, ANY_PORT),
        ("0.0.0.0/32:*", Addresses::Any, ANY_PORT),
        (
            "::/0:*",
            Addresses::Prefix("::".parse().expect("v6"), 128),
            ANY_PORT,
        ),
        (
            "10.1.2.3/0:*",
            Addresses::Prefix("10.1.2.3".parse().expect("v4"), 32),
            ANY_PORT,
        ),
    ];
    for (text, addresses, ports) in cases {
        let rule = &rules(&format!("use tcp client prog {text}"))[0];
        assert_eq!((rule.addresses, rule.ports), (addresses, ports), "{text}");
    }
}

#[test]
fn a_program_is_whatever_stands_between_blanks() {
    for program in ["*", "iper[f]?", "a#b", "-x", "use", "\u{e4}"] {
        let rule = &rules(&format!("use sdp\tserver  {program} *:* # why\n"))[0];
        assert_eq!(rule.program.to_bytes(), program.as_bytes());
    }
}

#[test]
fn options_of_log_come_in_any_order_or_not_at_all() {
    let text = b"log\nlog destination syslog\nlog min-level 3 destination stderr#x\n";
    assert_eq!(
        parse(text).expect("it parses"),
        [
            Statement::Log {
                destination: None,
                min_level: None
            },
            Statement::Log {
                destination: Some(Destination::Syslog),
                min_level: None
            },
            Statement::Log {
                destination: Some(Destination::Stderr),
                min_level: Some(3)
            },
        ]
    );
}

#[test]
fn errors_have_a_line_and_a_column() {
    let cases = [
        ("\n\nUse sdp", 3, 1, "'Use' where log, use or async belongs"),
        ("use", 1, 4, "sdp, tcp or both is missing"),
        ("use udp", 1, 5, "'udp' where sdp, tcp or both belongs"),
        ("use sdp # client", 1, 9, "server or client is missing"),
        (
            "use sdp both * *:*",
            1,
            9,
            "'both' where server, listen, client or connect belongs",
        ),
        ("use sdp client", 1, 15, "the program is missing"),
        (
            "use sdp client *",
            1,
            17,
            "the address and ports are missing",
        ),
        ("use sdp client * *", 1, 19, "':' and the ports are missing"),
        ("use sdp client * 10.0.0:1", 1, 18, "'10.0.0' is no address"),
        (
            "use sdp client * 1.2.3.4/33:1",
            1,
            26,
            "a prefix has at most 32 bits",
        ),
        (
            "use sdp client * 0.0.0.0/33:1",
            1,
            26,
            "a prefix has at most 32 bits",
        ),
        (
            "use sdp client * ::1/129:1",
            1,
            22,
            "a prefix has at most 128 bits",
        ),
        (
            "use sdp client * ::1/999:1",
            1,
            22,
            "a prefix has at most 128 bits",
        ),
        ("use sdp client * 1.2.3.4/x:1", 1, 26, "'x' is no number"),
        ("use sdp client * *:1-", 1, 22, "'' is no number"),
        ("use sdp client * *:1 - #", 1, 24, "'' is no number"),
        ("use sdp client * *:", 1, 20, "'' is no number"),
        (
            "use sdp client * 1 2.3.4.5:1",
            1,
            18,
            "'1 2.3.4.5' is no address",
        ),
        ("use sdp client * : 1:1", 1, 18, "': 1' is no address"),
        ("use sdp client * 1.2.3.4 / : 1", 1, 27, "'' is no number"),
        (
            "use sdp client * *:1-2-3",
            1,
            23,
            "'-3' behind a complete statement",
        ),
        ("use sdp client * *:http", 1, 20, "'http' is no number"),
        ("use sdp client * *:+1", 1, 20, "'+1' is no number"),
        (
            "use sdp client * *:* *",
            1,
            22,
            "'*' behind a complete statement",
        ),
        ("use sdp client * *:*\r", 1, 20, "'*\r' is no number"),
        (
            "log loudly",
            1,
            5,
            "'loudly' where destination or min-level belongs",
        ),
        ("log min-level", 1, 14, "a level from 1 to 9 is missing"),
        (
            "log destination file",
            1,
            21,
            "the name of the log file is missing",
        ),
        (
            "log destination stdout",
            1,
            17,
            "'stdout' where stderr, syslog or file belongs",
        ),
        ("use sdp client a\0b *:*", 1, 17, "a null byte"),
    ];
    for (text, line, column, message) in cases {
        assert_eq!(error(text), (line, column, message.into()), "{text:?}");
    }
}

#[test]
fn the_last_line_may_lack_its_end() {
    assert_eq!(rules("use sdp client * *:*").len(), 1);
}

/// A separator with blanks and tabs around it.
fn sign(sign: char) -> impl Strategy<Value = String> {
    ("[ \t]{0,2}", "[ \t]{0,2}").prop_map(move |(before, behind)| format!("{before}{sign}{behind}"))
}

/// A rule, and one of its possible spellings.
fn written_rule() -> impl Strategy<Value = (Rule, String)> {
    let transport = prop::sample::select(vec![
        (Transport::Sdp, "sdp"),
        (Transport::Tcp, "tcp"),
        (Transport::Both, "both"),
    ]);
    let role = prop::sample::select(vec![
        (Role::Server, "server"),
        (Role::Server, "listen"),
        (Role::Client, "client"),
        (Role::Client, "connect"),
    ]);
    let address = prop_oneof![
        Just((Addresses::Any, String::from("*"))),
        (any::<[u8; 4]>(), 1_u8..=32).prop_map(|(bytes, prefix)| {
            let address = IpAddr::from(bytes);
            (
                addresses_from(address, prefix),
                format!("{address}/{prefix}"),
            )
        }),
        (any::<[u8; 16]>(), 1_u8..=128).prop_map(|(bytes, prefix)| {
            let address = IpAddr::from(bytes);
            (
                Addresses::Prefix(address, prefix),
                format!("{address}/{prefix}"),
            )
        }),
        any::<[u8; 16]>().prop_map(|bytes| {
            let address = IpAddr::from(bytes);
            (Addresses::Prefix(address, 128), address.to_string())
        }),
    ];
    let ports = prop_oneof![
        Just((ANY_PORT, String::from("*"))),
        any::<u16>().prop_map(|port| ((port.into(), port.into()), port.to_string())),
        (any::<(u16, u16)>(), sign('-'))
            .prop_map(|((a, b), dash)| ((a.into(), b.into()), format!("{a}{dash}{b}"))),
    ];
    let blank = "[ \t]{1,3}";
    let end = "[ \t]{0,2}(#[ -~]{0,9})?";
    let program = "[!-\"$-~][!-~]{0,9}";
    (
        (transport, role, program, address, ports),
        (blank, blank, blank, blank, sign(':'), end),
    )
        .prop_map(|((transport, role, program, address, ports), blanks)| {
            let text = format!(
                "use{}{}{}{}{}{program}{}{}{}{}{}",
                blanks.0,
                transport.1,
                blanks.1,
                role.1,
                blanks.2,
                blanks.3,
                address.1,
                blanks.4,
                ports.1,
                blanks.5,
            );
            let rule = Rule {
                line: 1,
                transport: transport.0,
                role: role.0,
                program: CString::new(program).unwrap_or_default(),
                addresses: address.0,
                ports: ports.0,
            };
            (rule, text)
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read((rule, text) in written_rule()) {
        prop_assert_eq!(parse(text.as_bytes()), Ok(vec![Statement::Use(rule)]));
    }

    #[test]
    fn any_bytes_give_statements_or_a_place(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
        match parse(&text) {
            Ok(statements) => prop_assert!(statements.len() <= lines.len()),
            Err(error) => {
                prop_assert!((1..=lines.len()).contains(&error.line));
                let line = lines[error.line - 1];
                prop_assert!((1..=line.len() + 1).contains(&error.column));
            }
        }
    }

    #[test]
    fn a_damaged_rule_is_refused_in_its_line(
        (_, text) in written_rule(),
        above in 0_usize..5,
    ) {
        let text = format!("{}{text} and more", "# nothing\n".repeat(above));
        // A comment after the rule extends to the end of the line.
        if let Err(error) = parse(text.as_bytes()) {
            prop_assert_eq!(error.line, above + 1);
        } else {
            let last = text.lines().last().unwrap_or_default();
            prop_assert!(last.contains('#'));
        }
    }
}
