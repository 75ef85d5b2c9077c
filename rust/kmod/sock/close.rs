// SPDX-License-Identifier: GPL-2.0

//! shutdown(2) and close(2).

use crate::{
    endpoint::{
        Inner,
        Phase, //
    },
    ffi,
    net::{
        socket::{
            Socket,
            SS_UNCONNECTED, //
        },
        task::is_exiting,
    },
    object::Sock,
    prelude::*,
    sock::wait::FOREVER, //
};

impl Sock {
    /// shutdown(2).
    pub(crate) fn shutdown(&self, socket: &Socket, how: c_int) -> Result {
        // 0, 1, 2 of the system call become the bits 1, 2, 3.
        let how = u32::try_from(how.wrapping_add(1)).map_err(|_| EINVAL)?;
        if how == 0 || how & !ffi::SHUTDOWN_MASK != 0 {
            return Err(EINVAL);
        }
        let _call = self.lock();
        match self.tcp_state() {
            ffi::TCP_CLOSE => {
                self.look(|_| self.add_shutdown(how));
                self.wake_state();
                Err(ENOTCONN)
            }
            ffi::TCP_LISTEN => {
                if how & ffi::RCV_SHUTDOWN != 0 {
                    self.disconnect();
                    socket.set_state(SS_UNCONNECTED);
                }
                self.wake_state();
                Ok(())
            }
            ffi::TCP_SYN_SENT => {
                self.disconnect();
                socket.set_state(SS_UNCONNECTED);
                self.wake_state();
                Ok(())
            }
            _ => {
                self.drive(|inner| {
                    self.add_shutdown(how);
                    inner.wake().settled = true;
                    if how & ffi::SEND_SHUTDOWN != 0 {
                        if let Some(engine) = inner.engine.as_mut() {
                            engine.shutdown_send();
                        }
                    }
                });
                self.wake_state();
                Ok(())
            }
        }
    }

    /// close(2) of the last descriptor. Sleeps as SO_LINGER says.
    pub(crate) fn release(&self) {
        let mut call = self.begin();
        self.catch_up();
        self.await_promises(&mut call);
        let linger = self.linger();
        let mut dead = (None, None);
        let closing = self.drive(|inner| {
            self.add_shutdown(ffi::SHUTDOWN_MASK);
            dead = (inner.listener.take(), inner.resolving.stop());
            inner.begin_close(self, linger == Some(0))
        });
        // Without the endpoint's lock: both wait for handlers that take it.
        if let Some(listener) = dead.0 {
            listener.close();
        }
        drop(dead.1);
        if let Some(jiffies) = linger.filter(|_| closing && !is_exiting()) {
            let mut timeo = isize::try_from(jiffies).unwrap_or(FOREVER);
            // Linger until our DisConn has left, the time has passed, or a signal
            // comes.
            let _ = self.wait(&mut call, &mut timeo, || {
                let state = self.tcp_state();
                let under_way = state == ffi::TCP_FIN_WAIT1
                    || state == ffi::TCP_LAST_ACK
                    || state == ffi::TCP_CLOSING;
                (!under_way).then_some(())
            });
        }
        if !is_exiting() {
            self.linger_for_loans(&mut call);
        }
        self.lend_no_more();
        if let Ok(lock) = call.guard() {
            lock.orphan();
        }
        self.drive(|inner| {
            inner.orphan.close();
            if inner.phase == Phase::Connected {
                inner.become_orphan(self);
            } else {
                inner.recv.clear();
                inner.binding.release();
            }
        });
        drop(call);
    }
}

impl Inner {
    /// The last close(): ends the connection or what goes before one, at once if it `aborts` or bytes
    /// are unread. Returns whether our last bytes and the end of the stream are to be sent.
    fn begin_close(&mut self, sock: &Sock, aborts: bool) -> bool {
        if self.phase != Phase::Connected {
            self.orphan.close();
            let connecting = self.phase == Phase::Connecting;
            self.finish(sock);
            if connecting {
                self.next_generation();
            }
            return false;
        }
        let unread = !self.recv.is_empty() || self.remote_len() > 0;
        let Some(engine) = self.engine.as_mut() else {
            return false;
        };
        if unread || aborts {
            engine.abort();
            return false;
        }
        engine.close_receive();
        engine.shutdown_send();
        true
    }
}
