// SPDX-License-Identifier: GPL-2.0

//! The active side: Hello out, HelloAck in.

use crate::{
    alarm::Alarm,
    cm::{
        config,
        connection_cb,
        identifier::CmId,
        random_psn,
        shape,
        ticket::Ticket,
        RETRY_COUNT,
        RNR_RETRY_COUNT, //
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
    errno::is_worth_tcp,
    ffi,
    link::{
        Link,
        Origin, //
    },
    object::{
        Sock,
        SockRef, //
    },
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::error::to_result;

/// Time of one try of the CM: 4.096 us << 18, about one second.
const CM_RESPONSE_TIMEOUT: u8 = 18;
const CM_RETRIES: u8 = 15;

/// Number of tries if the peer knows the queue pair from an old connection, and the
/// first pause between them. Each pause is twice as long as the one before.
const STALE_TRIES: u32 = 6;
const STALE_MS: u32 = 20;

/// The route is known: makes the link and sends the Hello.
///
/// # Safety
///
/// `id` is valid and its route is resolved.
pub(super) unsafe fn request(sock: &SockRef, generation: u64, id: *mut ffi::rdma_cm_id) -> Result {
    // SAFETY: The identifier is valid, by the caller's promise.
    let device = devices::find(unsafe { (*id).device }).ok_or(ENODEV)?;
    let device = &device;
    let peer = sock.look(|inner| inner.peer.ip);
    let shape = shape(&sock.net().knobs(), sock, peer).fit(device);
    let origin = Origin {
        sock: sock.clone(),
        generation,
    };
    let mut lease = Some(Link::lease(device, sock)?);
    let mut link = Link::new(device, origin, &shape, &mut lease)?;
    let ticket = Ticket::new(sock, generation)?;
    // SAFETY: The device is leased by the link, which gets the identifier; the context is a
    // ticket's, which the handler expects.
    let cm =
        unsafe { ffi::ib_create_cm_id(device.as_ptr(), Some(connection_cb), ticket.context()) };
    let cm = NonNull::new(kernel::error::from_err_ptr(cm)?).ok_or(ENOMEM)?;
    // SAFETY: Just created, and ours, with the ticket's context.
    link.cm = Some(unsafe { CmId::from_raw(cm, ticket) });

    let mut unused = None;
    let sent = sock.drive(|inner| {
        if inner.generation() != generation || inner.phase != Phase::Connecting {
            unused = Some(link);
            return Ok(());
        }
        let mut engine = Connection::connecting(config(&shape));
        // SAFETY: The identifier is valid and has a route, by the caller's promise.
        let (port, pkey) = unsafe { ((*id).port_num, (*(*id).route.path_rec).pkey) };
        let ready = link
            .qp()
            .initialise(port, pkey)
            .and_then(|()| link.post_first(&mut engine));
        let sent = ready.and_then(|()| {
            let hello = engine
                .hello(inner.local.ip, inner.peer.ip, inner.local.port)
                .map_err(|_| ENOMEM)?;
            // SAFETY: The route is resolved, by the caller's promise, and outlives the call.
            unsafe { send_request(&link, id, inner.peer.port, &hello) }
        });
        let sent = if link.is_device_leaving() {
            Err(ENODEV)
        } else {
            sent
        };
        inner.link = Some(link);
        inner.engine = Some(Engine::new(engine));
        if sent.is_err() {
            inner.retire_link(sock);
            inner.engine = None;
        }
        sent
    });
    if let Some(link) = unused {
        drop(link.destroy());
    }
    sent
}

/// # Safety
///
/// `id` has a resolved route.
unsafe fn send_request(
    link: &Link,
    id: *mut ffi::rdma_cm_id,
    port: u16,
    hello: &[u8; HELLO_LEN],
) -> Result {
    let cm = link.cm.as_ref().ok_or(EINVAL)?;
    //= spec: HELLO-10
    let service = u64::from(ffi::SDP_SERVICE_ID_BASE).wrapping_add(port.into());
    // SAFETY: The identifier is valid and has a route, by the caller's promise.
    let mut param = unsafe {
        ffi::ib_cm_req_param {
            primary_path: (*id).route.path_rec,
            ppath_sgid_attr: (*id).route.addr.dev_addr.sgid_attr,
            service_id: service.to_be(),
            qp_num: link.qp().number(),
            qp_type: ffi::ib_qp_type_IB_QPT_RC,
            starting_psn: random_psn(),
            private_data: hello.as_ptr().cast(),
            private_data_len: hello.len() as u8,
            responder_resources: link.reads().answered,
            initiator_depth: link.reads().begun,
            remote_cm_response_timeout: CM_RESPONSE_TIMEOUT,
            local_cm_response_timeout: CM_RESPONSE_TIMEOUT,
            flow_control: 0,
            retry_count: RETRY_COUNT,
            rnr_retry_count: RNR_RETRY_COUNT,
            max_cm_retries: CM_RETRIES,
            ..pin_init::zeroed()
        }
    };
    // SAFETY: The identifier is valid as long as `cm`, the parameters are read during the call.
    to_result(unsafe { ffi::ib_send_cm_req(cm.as_ptr(), &mut param) })
}

impl Inner {
    /// REP: the peer's HelloAck, and the number of Reads that it begins and answers.
    pub(super) fn on_reply(&mut self, sock: &Sock, data: &[u8], (begins, answers): (u8, u8)) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if self.phase != Phase::Connecting {
            return;
        }
        let ready = link
            .modify(ffi::ib_qp_state_IB_QPS_RTR, None)
            .and_then(|()| link.modify(ffi::ib_qp_state_IB_QPS_RTS, None));
        if let Err(e) = ready {
            return self.fail_connect(sock, e);
        }
        if engine.handle_hello_ack(data).is_err() {
            sock.net().stats.violations.inc();
            if let Some(cm) = link.cm.as_ref() {
                // SAFETY: The identifier is ours.
                unsafe {
                    //= spec: HELLO-11
                    ffi::ib_send_cm_rej(
                        cm.as_ptr(),
                        ffi::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED,
                        core::ptr::null_mut(),
                        0,
                        core::ptr::null(),
                        0,
                    )
                };
            }
            return self.fail_connect(sock, ECONNREFUSED);
        }
        let reads = link.reads().meet(begins, answers);
        engine.limit_reads(link.reads_to_begin(reads.begun), reads.answered > 0);
        engine.apply(&self.options);
        link.unconfirmed = true;
        self.phase = Phase::Connected;
        self.came_about = true;
        sock.net().stats.active_opens.inc();
        self.start_keepalive(sock);
    }

    /// Sends the RTU. A call of its own, after [`Self::on_reply`] has woken the program: as with
    /// TCP, a program that has both ends finds the connecting one ready no later than the
    /// accepted one.
    pub(super) fn confirm(&mut self) {
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
        if self.stale_tries >= STALE_TRIES {
            return false;
        }
        sock.net().stats.stale_retries.inc();
        self.retire_link(sock);
        self.engine = None;
        self.stop_timers();
        // Later events of the old identifier are ignored.
        self.next_generation();
        self.resolve_tries = 1;
        sock.set_alarm(Alarm::Engine, STALE_MS << self.stale_tries);
        self.stale_tries = self.stale_tries.saturating_add(1);
        true
    }

    /// connect() has failed. If TCP may take over, the failure is not reported: until
    /// TCP's attempt has begun, observers see this one.
    pub(crate) fn fail_connect(&mut self, sock: &Sock, error: Error) {
        sock.net().stats.failed_opens.inc();
        self.retire_link(sock);
        self.engine = None;
        self.next_generation();
        if self.has_way_out && is_worth_tcp(error) {
            self.give_way_soon(sock, error);
        } else {
            self.tell_failure(sock, error);
        }
    }

    /// Reports that connect() has failed; the socket can connect again.
    pub(crate) fn tell_failure(&mut self, sock: &Sock, error: Error) {
        sock.set_err(error);
        self.phase = Phase::Idle;
        self.has_way_out = false;
        self.show_state(sock, ffi::TCP_CLOSE);
        // Until the next connect() no byte can be read or written.
        sock.add_shutdown(ffi::SHUTDOWN_MASK);
        self.wake().hangup = true;
        self.wake().error = true;
    }
}

impl Link {
    /// Sends the RTU, unless the peer has it already.
    pub(crate) fn confirm(&mut self) -> Result {
        match self.cm.as_ref() {
            Some(cm) if core::mem::take(&mut self.unconfirmed) => {
                // SAFETY: The identifier is ours.
                to_result(unsafe { ffi::ib_send_cm_rtu(cm.as_ptr(), core::ptr::null(), 0) })
            }
            _ => Ok(()),
        }
    }
}
