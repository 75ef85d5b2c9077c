// SPDX-License-Identifier: MIT

//! Sockets without SDP: connections over TCP, which a listener for both accepts as well. The
//! examples test SDP in a virtual machine.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

use sdp_socket::{socket, SdpListener, SdpStream, Transport};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

const LOCALHOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

#[test]
fn bytes_go_both_ways_and_the_socket_says_it_is_tcp() {
    for address in LOCALHOSTS {
        let listener = SdpListener::bind_with(address, Transport::Tcp).expect("a listener");
        let name = listener.local_addr().expect("its name");
        let mut client = SdpStream::connect_timeout(&name, Transport::Tcp, Duration::from_secs(60))
            .expect("a connection");
        let mut server = listener
            .incoming()
            .next()
            .expect("it has no end")
            .expect("the same");
        assert_eq!(client.peer_addr().expect("a name"), name);
        client.write_all(b"there").expect("sent");
        client.shutdown(Shutdown::Write).expect("that is all");
        let mut came = String::new();
        server.read_to_string(&mut came).expect("received");
        (&server).write_all(b"and back").expect("sent");
        drop(server);
        (&client).read_to_string(&mut came).expect("received");
        assert_eq!(came, "thereand back");
        assert_eq!(client.transport().expect("it is known"), Transport::Tcp);
        assert!(client.fallback_reason().expect("it is known").is_none());
        assert_eq!(
            client
                .set_zero_copy_threshold(4096)
                .expect_err("TCP has none")
                .raw_os_error(),
            Some(libc::ENOPROTOOPT)
        );
    }
}

#[test]
fn what_may_be_both_is_tcp_where_sdp_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let name = listener.local_addr().expect("its name");
    let mut client = SdpStream::connect_with(name, Transport::Both).expect("a connection");
    let (mut server, _) = listener.accept().expect("the same");
    assert_eq!(client.transport().expect("it is known"), Transport::Tcp);
    client.write_all(b"there").expect("sent");
    drop(client);
    let mut came = String::new();
    server.read_to_string(&mut came).expect("received");
    assert_eq!(came, "there");
}

#[test]
fn a_descriptor_becomes_a_stream_and_again_a_descriptor() {
    let listener = SdpListener::bind_with("127.0.0.1:0", Transport::Tcp).expect("a listener");
    let name = listener.local_addr().expect("its name");
    let client = SdpStream::connect_with(name, Transport::Tcp).expect("a connection");
    let fd = OwnedFd::from(client.try_clone().expect("once more"));
    let again = SdpStream::from(fd);
    assert_eq!(
        again.local_addr().expect("a name"),
        client.local_addr().expect("a name")
    );
}

#[test]
fn no_address_is_an_error_and_so_is_one_that_nobody_has() {
    let none: &[SocketAddr] = &[];
    assert!(SdpStream::connect_with(none, Transport::Tcp).is_err());
    assert!(SdpListener::bind_with(none, Transport::Tcp).is_err());
    let bound = socket(SocketAddr::from(([127, 0, 0, 1], 0)), Transport::Tcp).expect("a socket");
    bound
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("a port");
    let name = bound
        .local_addr()
        .expect("its name")
        .as_socket()
        .expect("an address");
    let refused = SdpStream::connect_with(name, Transport::Tcp).expect_err("no listener");
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
}
