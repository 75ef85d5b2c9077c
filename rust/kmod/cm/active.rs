// SPDX-License-Identifier: GPL-2.0

//! The active side: Hello out, HelloAck in.

use crate::{
    alarm::Alarm,
    cm::{
        identifier::CmId,
        parameters::{
            config,
            lease_of,
            random_psn,
            shape,
            Connections,
            RETRY_COUNT,
            RNR_RETRY_COUNT, //
        },
        ticket::Ticket, //
    },
    devices,
    endpoint::{
        Engine,
        Inner,
        Phase, //
    },
    engine::{
        conn::Connection,
        wire::hello::HELLO_LEN, //
    },
    errno,
    ffi,
    handle::Origin,
    link::Link,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    rdma::{
        cm::{
            Id,
            PeerReads,
            RequestParameters, //
        },
        qp::State,
        route::Path, //
    }, //
};

/// Number of times that the CM sends a Hello, about a second apart.
const CM_RETRIES: u8 = 15;

/// Number of tries if the peer knows the queue pair from an old connection, and the
/// first pause between them. Each pause is twice as long as the one before.
const STALE_TRIES: u32 = 6;
const STALE_MS: u32 = 20;

/// The route is known: makes the link and sends the Hello.
pub(super) fn request(sock: &SockRef, generation: u64, path: &Path<'_>) -> Result {
    let device = devices::find(path.device()).ok_or(ENODEV)?;
    let device = &device;
    let peer = sock.look(|inner| inner.peer.ip);
    let knobs = sock.net().knobs();
    let tcp_after = knobs.tcp_after_ms;
    let shape = shape(&knobs, sock, peer, true).fit(device);
    let origin = Origin {
        sock: sock.clone(),
        generation,
    };
    let mut lease = Some(lease_of(device, sock)?);
    let mut link = Link::new(device, origin, &shape, &mut lease)?;
    let ticket = Ticket::new(sock, generation)?;
    let id = Id::new::<Connections>(device, ticket.context())?;
    link.cm = Some(CmId::new(id, ticket));

    let mut unused = None;
    let sent = sock.drive(|inner| {
        if inner.generation() != generation || inner.phase != Phase::Connecting {
            unused = Some(link);
            return Ok(());
        }
        let mut engine = Connection::connecting(config(&shape));
        let (port, pkey) = path.port();
        let ready = link
            .qp()
            .initialise(port, pkey)
            .and_then(|()| link.post_first(&mut engine));
        let sent = ready.and_then(|()| {
            let hello = engine
                .hello(inner.local.ip, inner.peer.ip, inner.local.port)
                .map_err(|_| ENOMEM)?;
            send_request(&link, path, inner.peer.port, &hello)
        });
        let sent = link.check_device().and(sent);
        inner.link = Some(link);
        inner.engine = Some(Engine::new(engine));
        if sent.is_err() {
            inner.retire_link(sock);
            inner.engine = None;
        } else if inner.fallback.is_open() && inner.fallback.race().is_none() && tcp_after > 0 {
            sock.set_alarm(Alarm::Race, tcp_after);
        }
        sent
    });
    if let Some(link) = unused {
        drop(link.destroy());
    }
    sent
}

fn send_request(link: &Link, path: &Path<'_>, port: u16, hello: &[u8; HELLO_LEN]) -> Result {
    let cm = link.cm.as_ref().ok_or(EINVAL)?;
    //= spec: HELLO-10
    let service = u64::from(ffi::SDP_SERVICE_ID_BASE).wrapping_add(port.into());
    cm.request(
        link.qp().number(),
        path,
        &RequestParameters {
            service,
            starting_psn: random_psn(),
            reads: link.reads(),
            retries: RETRY_COUNT,
            rnr_retries: RNR_RETRY_COUNT,
            tries: CM_RETRIES,
            data: hello,
        },
    )
}

impl Inner {
    /// REP: the peer's HelloAck, and the number of Reads that it begins and answers.
    pub(crate) fn on_reply(&mut self, sock: &Sock, data: &[u8], reads: PeerReads) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if self.phase != Phase::Connecting {
            return;
        }
        if let Some(race) = self.fallback.race_mut() {
            race.hold(data, reads);
            return sock.set_alarm(Alarm::Race, 0);
        }
        let ready = link
            .modify(State::ReadyToReceive, None)
            .and_then(|()| link.modify(State::ReadyToSend, None));
        if let Err(e) = ready {
            let reason = link.check_device().err().unwrap_or(e);
            return self.fail_connect(sock, errno::of_unready(reason));
        }
        if engine.handle_hello_ack(data).is_err() {
            sock.net().stats.violations.inc();
            if let Some(cm) = link.cm.as_ref() {
                //= spec: HELLO-11
                // An error means that the CM is past it already.
                let _ = cm.reject();
            }
            return self.fail_connect(sock, ECONNREFUSED);
        }
        let reads = link.reads().meet(reads.begins, reads.answers);
        engine.limit_reads(link.reads_to_begin(reads.begun), reads.answered > 0);
        engine.apply(&self.options);
        link.unconfirmed = true;
        self.phase = Phase::Connected;
        self.fallback.on_connected();
        self.note_answer(sock);
        sock.clear_alarm(Alarm::Race);
        sock.net().stats.active_opens.inc();
        self.start_keepalive(sock);
    }

    /// Sends the RTU. A call of its own, after [`Self::on_reply`] has woken the program: as with
    /// TCP, a program that has both ends finds the connecting one ready no later than the
    /// accepted one.
    pub(crate) fn confirm(&mut self) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if link.confirm().is_err() {
            engine.handle_disconnected();
        }
    }

    /// The peer has rejected the Hello because it has a connection with a queue pair of
    /// that number, from before this host or its device was restarted. The peer ends
    /// that connection now, and another queue pair has another number.
    pub(super) fn asks_anew(&mut self, sock: &Sock) -> bool {
        if self.resolving.stale >= STALE_TRIES {
            return false;
        }
        sock.net().stats.stale_retries.inc();
        if let Some(race) = self.fallback.race_mut() {
            race.forget_reply();
        }
        self.retire_link(sock);
        self.engine = None;
        self.stop_timers();
        // Later events of the old identifier are ignored.
        self.next_generation();
        self.resolving.tries = 1;
        sock.set_alarm(Alarm::Engine, STALE_MS << self.resolving.stale);
        self.resolving.stale = self.resolving.stale.saturating_add(1);
        true
    }
}
