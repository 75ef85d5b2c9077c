// SPDX-License-Identifier: GPL-2.0

//! Frames from the wire, and events of the interfaces: the calls of `ffi/frame.c`.
//!
//! Contexts: [`rlo_frame_received`] in a softirq; [`rlo_link_changed`] under RTNL.

use crate::{
    ffi,
    joint::Joint,
    prelude::*,
    qp::{
        datagram,
        Device, //
    }, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// Handles a frame from the wire. Its contents are not trusted.
///
/// # Safety
///
/// All are valid for the call: `own` is the Rust half of the device that received the frame, and
/// `skb` a frame with the header `head`, which only the caller has.
#[no_mangle]
unsafe extern "C" fn rlo_frame_received(
    own: *const c_void,
    skb: *mut ffi::sk_buff,
    head: *const ffi::rlo_frame,
) {
    // SAFETY: Valid for the call, by the caller's promise, and a copy that no code writes to.
    let head = unsafe { &*head };
    // SAFETY: `own` is an Arc's, by the caller's promise.
    let device: Arc<Device> = unsafe { ArcBorrow::<'_, Device>::from_raw(own.cast()) }.into();
    // Ports of the two link layers never communicate.
    if (head.slid != 0) != device.port.is_infiniband() {
        return;
    }
    match u32::from(head.kind) {
        ffi::rlo_frame_kind_RLO_FRAME_PING => {
            if device.port.is_silent() || !device.port.is_meant(head) {
                return;
            }
            let answer = ffi::rlo_frame {
                kind: ffi::rlo_frame_kind_RLO_FRAME_PONG as u16,
                token: device.port.token,
                len: 0,
                ..*head
            };
            device.port.counters.probes_answered.one();
            // SAFETY: Both are valid for the call.
            unsafe { ffi::rlo_frame_answer(skb, &answer) };
        }
        ffi::rlo_frame_kind_RLO_FRAME_PONG => {
            if let Some(peer) = Device::with_token(head.token) {
                device
                    .joints
                    .with_nonce(head.nonce, |joint| joint.answered(&peer));
            }
        }
        ffi::rlo_frame_kind_RLO_FRAME_DATAGRAM if device.port.is_meant_as_datagram(head) => {
            // SAFETY: Both are valid, by the caller's promise.
            let payload = unsafe { ffi::rlo_frame_payload(skb, head) };
            if payload.is_null() {
                device.port.counters.datagrams_dropped.one();
                return;
            }
            // SAFETY: As many bytes follow as `len` says, in memory that only this frame has.
            let payload =
                unsafe { core::slice::from_raw_parts(payload.cast::<u8>(), head.len as usize) };
            datagram::receive(&device, head, payload);
        }
        _ => {}
    }
}

/// An interface went down, or its address changed: its peers are probed at once.
///
/// # Safety
///
/// `own` is the Rust half of a registered device.
#[no_mangle]
unsafe extern "C" fn rlo_link_changed(own: *const c_void) {
    // SAFETY: The device is registered, so that `own` is its Arc, by the caller's promise.
    let device = unsafe { ArcBorrow::<'_, Device>::from_raw(own.cast()) };
    device.joints.each(Joint::doubt);
}
