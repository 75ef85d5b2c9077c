// SPDX-License-Identifier: GPL-2.0

//! Raw bytes as messages: accepted bytes are emitted again unchanged.

use crate::fault::{ensure, Checked};
use sdp_engine::engine::wire::{
    hello::{Hello, HelloAck, HELLO_ACK_LEN, HELLO_LEN},
    Message, Repr, BSDH_LEN, HEADER_MAX,
};

/// Parses the bytes as every kind of input.
pub fn read(bytes: &[u8]) -> Checked {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let head = bytes.get(..HEADER_MAX).unwrap_or(bytes);
    message(head, len)?;
    // The same bytes with the correct length.
    if let Some(place) = bytes.get(4..8).and_then(|len| len.first_chunk::<4>()) {
        message(head, u32::from_be_bytes(*place))?;
    }
    hello(bytes)?;
    hello_ack(bytes)
}

fn message(head: &[u8], wire_len: u32) -> Checked {
    let Ok(view) = Message::check(head, wire_len) else {
        return Ok(());
    };
    ensure!(view.bsdh().len == wire_len, "a length that does not match");
    let Ok(repr) = Repr::parse(&view) else {
        return Ok(());
    };
    let offset = usize::from(repr.payload_offset());
    let emitted = repr.emit();
    let mut read = head.get(..offset).unwrap_or(head).to_vec();
    if let Some(flags) = read.get_mut(1) {
        // The other flags are reserved.
        *flags &= 0b111;
    }
    ensure!(
        emitted.as_bytes() == read,
        "{repr} is emitted in another way than it was read"
    );
    let whole = u32::from(repr.payload_offset()) + repr.payload_len;
    ensure!(whole == wire_len, "{repr} of {wire_len} bytes");
    ensure!(offset >= BSDH_LEN, "{repr} begins inside of its header");
    Ok(())
}

fn hello(bytes: &[u8]) -> Checked {
    let Ok(hello) = Hello::parse(bytes) else {
        return Ok(());
    };
    ensure!(bytes.len() >= HELLO_LEN, "a Hello of {} bytes", bytes.len());
    ensure!(
        hello.max_adverts > 0 && hello.local_rcv_size >= 37,
        "{hello:?} is of no use"
    );
    let again = Hello::parse(&hello.emit());
    ensure!(again == Ok(hello), "{hello:?} comes back as {again:?}");
    Ok(())
}

fn hello_ack(bytes: &[u8]) -> Checked {
    let Ok(ack) = HelloAck::parse(bytes) else {
        return Ok(());
    };
    ensure!(
        bytes.len() >= HELLO_ACK_LEN,
        "a HelloAck of {} bytes",
        bytes.len()
    );
    let again = HelloAck::parse(&ack.emit());
    ensure!(again == Ok(ack), "{ack:?} comes back as {again:?}");
    Ok(())
}
