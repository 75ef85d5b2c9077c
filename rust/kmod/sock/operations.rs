// SPDX-License-Identifier: GPL-2.0

//! The operations of a socket: `proto_ops`.
//!
//! Each one calls a method of [`Sock`], or passes the call on to the TCP companion where
//! that is in use. Contexts: process context, may sleep, no lock held.

use crate::{
    ffi,
    net::{
        msg::{
            RecvMsg,
            SendMsg, //
        },
        option::{
            OptionRoom,
            OptionValue, //
        },
        proto_ops::{
            AcceptArg,
            NewSocket,
            Operations,
            Table, //
        },
        socket::{
            Socket,
            Storage, //
        },
        splice::Splice,
    },
    object::Sock,
    prelude::*,
    sock::{
        companion::MOVED,
        Calls, //
    },
};
use kernel::{
    fs::LocalFile,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

static TABLE: Table<Calls> = Table::new(ffi::AF_INET_SDP as c_int, this_module());

/// The result of `call` on the TCP companion, where that is in use.
fn on_tcp<R>(sock: &Sock, call: impl FnOnce(&Socket) -> Result<R>) -> Option<Result<R>> {
    let tcp = sock.tcp_after_connect()?;
    Some(call(tcp.socket()).inspect_err(|_| sock.settle_tcp_error()))
}

impl Operations for Calls {
    type Object = Sock;

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn release(sock: &Sock) -> impl Sized {
        let companion = {
            // A worker may be about to fall back to it.
            let _call = sock.lock();
            // SAFETY: The last descriptor is closed, so no system call is under way.
            unsafe { sock.detach_companion() }
        };
        sock.release();
        companion
    }

    fn bind(sock: &Sock, name: &[u8]) -> Result {
        sock.bind_halves(name)
    }

    fn connect(sock: &Sock, socket: &Socket, name: &mut [u8], flags: u32) -> Result {
        sock.connect_halves(socket, name, flags)
    }

    fn accept(sock: &Sock, new: &mut NewSocket<'_>, arg: &mut AcceptArg) -> Result {
        sock.accept_halves(new, arg)
    }

    fn name(sock: &Sock, name: &mut Storage, peer: c_int) -> Result<usize> {
        match on_tcp(sock, |tcp| tcp.name(name, peer)) {
            Some(result) => result,
            None => sock.name(name, peer),
        }
    }

    fn poll(sock: &Sock, file: &LocalFile) -> u32 {
        sock.poll_halves(file)
    }

    fn ioctl(sock: &Sock, socket: &Socket, command: c_uint, arg: c_ulong) -> Result<c_int> {
        if let Some(result) = on_tcp(sock, |tcp| tcp.ioctl(command, arg)) {
            return result;
        }
        let value = match sock.ioctl(command) {
            // Addresses, routes and neighbours: no matter of this socket.
            Err(e) if e == ENOIOCTLCMD && sock.is_ipv4() => {
                return socket.inet_ioctl(command, arg);
            }
            result => result?,
        };
        let place = UserPtr::from_addr(arg);
        UserSlice::new(place, size_of::<c_int>())
            .writer()
            .write(&value)?;
        Ok(0)
    }

    fn listen(sock: &Sock, socket: &Socket, backlog: c_int) -> Result {
        sock.listen_halves(socket, backlog)
    }

    fn shutdown(sock: &Sock, socket: &Socket, how: c_int) -> Result {
        sock.shutdown_halves(socket, how)
    }

    fn set_option(sock: &Sock, level: c_int, option: c_int, value: OptionValue<'_>) -> Result {
        sock.set_option_halves(level, option, value)
    }

    fn option(sock: &Sock, level: c_int, option: c_int, room: OptionRoom) -> Result {
        sock.get_option_halves(level, option, room)
    }

    fn send(sock: &Sock, msg: &mut SendMsg, len: usize) -> Result<c_int> {
        if msg.flags() & ffi::MSG_FASTOPEN != 0 {
            return sock.fast_open(msg, len);
        }
        if let Some(result) = on_tcp(sock, |tcp| tcp.send(msg, len)) {
            return result;
        }
        let result = sock.send(msg, len);
        if result == Err(MOVED) {
            if let Some(result) = on_tcp(sock, |tcp| tcp.send(msg, len)) {
                return result;
            }
        }
        result
    }

    fn receive(sock: &Sock, msg: &mut RecvMsg, len: usize, flags: c_int) -> Result<c_int> {
        let result = match sock.tcp_after_connect() {
            Some(_) => Err(MOVED),
            None => sock.receive(msg, len, flags as u32),
        };
        if result != Err(MOVED) {
            return result;
        }
        sock.tcp()
            .map_or(result, |tcp| tcp.receive(msg, len, flags))
    }

    fn splice(sock: &Sock, splice: &mut Splice<'_>) -> Result<usize> {
        let moved = match sock.tcp_after_connect() {
            Some(_) => Err(MOVED),
            None => sock.splice(splice),
        };
        if moved == Err(MOVED) {
            // TCP asks the file of its socket, and the companion has none.
            return splice.copy_all();
        }
        moved
    }

    fn splice_eof(sock: &Sock) {
        match sock.tcp() {
            Some(tcp) => tcp.socket().splice_eof(),
            None => sock.splice_ends(),
        }
    }

    fn set_low_water_mark(sock: &Sock, bytes: c_int) {
        sock.set_low_water_mark(bytes);
    }
}
