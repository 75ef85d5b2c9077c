// SPDX-License-Identifier: GPL-2.0

//! listen(2) and accept(2).

use crate::{
    cm::passive::Requests,
    devices::Service,
    endpoint::{
        Listener,
        Phase, //
    },
    ffi,
    net::{
        proto_ops::{
            AcceptArg,
            NewSocket, //
        },
        socket::{
            Socket,
            SS_UNCONNECTED, //
        },
    },
    object::Sock,
    prelude::*,
    sock::Calls, //
};

impl Sock {
    /// listen(2).
    pub(crate) fn listen(&self, socket: &Socket, backlog: c_int) -> Result {
        let _call = self.lock();
        if socket.state() != SS_UNCONNECTED {
            return Err(EINVAL);
        }
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        let relisten = self.look(|inner| match inner.listener.as_mut() {
            Some(listener) => {
                listener.backlog = backlog;
                true
            }
            None => false,
        });
        if relisten {
            self.admit_held();
            return Ok(());
        }
        if self.tcp_state() != ffi::TCP_CLOSE {
            return Err(EINVAL);
        }
        self.autobind_listener()?;
        let port = self.look(|inner| {
            let lease = inner.binding.lease().ok_or(EINVAL)?;
            lease.listen()?;
            Ok::<u16, Error>(lease.port())
        })?;
        let service = match Service::new::<Requests>(port) {
            Ok(service) => service,
            Err(e) => {
                self.look(|inner| {
                    if let Some(lease) = inner.binding.lease() {
                        lease.unlisten();
                    }
                });
                return Err(if e == EBUSY { EADDRINUSE } else { e });
            }
        };
        self.look(|inner| {
            inner.show_state(self, ffi::TCP_LISTEN);
            inner.phase = Phase::Listening;
            inner.listener = Some(Listener::new(backlog, service));
        });
        Ok(())
    }

    /// accept(2).
    pub(crate) fn accept(&self, new: &mut NewSocket<'_>, arg: &mut AcceptArg) -> Result {
        let mut call = self.begin();
        if self.tcp_state() != ffi::TCP_LISTEN {
            return Err(EINVAL);
        }
        let take = || {
            self.look(|inner| match inner.listener.as_mut() {
                Some(listener) => listener.take_ready().map(Ok),
                None => Some(Err(EINVAL)),
            })
        };
        let child = match take() {
            Some(child) => child,
            None => {
                let nonblock = arg.flags & ffi::core::O_NONBLOCK as c_int != 0;
                let mut timeo = self.receive_timeout(nonblock);
                if timeo == 0 {
                    return Err(EAGAIN);
                }
                self.wait_in_turn(&mut call, &mut timeo, take)?
            }
        }?;
        let left = self.look(|inner| {
            inner
                .listener
                .as_ref()
                .is_some_and(|listener| listener.ready() > 0)
        });
        arg.is_empty = c_int::from(!left);
        drop(call);
        self.admit_held();
        new.graft::<Calls>(child.clone().into_aref())?;
        child.drive(|inner| {
            inner.on_accepted();
            inner.start_keepalive(&child);
        });
        Ok(())
    }
}

impl Listener {
    /// Ends the connections that were not accepted. Without locks; sleeps.
    pub(crate) fn close(mut self) {
        while let Some(child) = self.take_ready() {
            child.drive(|inner| inner.abandon(&child));
        }
        while let Some(child) = self.take_waiting() {
            child.forget_request();
        }
    }
}
