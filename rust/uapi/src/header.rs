// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note
// Made by bindgen from include/uapi/linux/sdp.h; see lib.rs.

pub const AF_INET_SDP: i32 = 27;
pub const PF_INET_SDP: i32 = 27;
pub const AF_INET6_SDP: i32 = 28;
pub const IPPROTO_SDP: i32 = 257;
pub const SDP_SERVICE_ID_BASE: i32 = 65536;
pub const SDP_ZCOPY_THRESH: i32 = 80;
pub const SDP_LAST_BIND_ERR: i32 = 81;
pub const SDP_SOCK_FAMILY: i32 = 82;
pub const SDP_TRANSPORT: i32 = 83;
pub const SDP_TRANSPORT_SDP: i32 = 0;
pub const SDP_TRANSPORT_BOTH: i32 = 1;
pub const SDP_TRANSPORT_TCP: i32 = 2;
pub const SDP_FALLBACK_REASON: i32 = 84;
pub const SDP_ZCOPY_SOURCE_THRESH: i32 = 85;
pub const SDP_ZCOPY_SINK_THRESH: i32 = 86;
pub const SDP_TRAFFIC: i32 = 87;
pub const SDP_BORROW: i32 = 89;
pub const SDP_BORROW_NO_LINGER: i32 = 1;
pub const SDP_BORROW_WAIT: i32 = 90;
pub const SDP_BORROW_CANCEL: i32 = 91;
pub const SDP_BORROW_FOREVER: i64 = 4294967295;
pub const SDP_BORROW_INFO: i32 = 92;
pub const SDP_AHEAD: i32 = 93;
pub const SDP_AHEAD_WAIT: i32 = 94;
pub const SDP_COMPANION_NEVER: i32 = 0;
pub const SDP_COMPANION_UNCONFINED: i32 = 1;
pub const SDP_COMPANION_ALWAYS: i32 = 2;
pub const SDP_SYSCTL_DIR: &[u8; 8] = b"net/sdp\0";
pub const SDP_PROC_SOCKETS: &[u8; 4] = b"sdp\0";
pub const SDP_PROC_STATS: &[u8; 9] = b"sdpstats\0";
pub const SDP_PROC_PEERS: &[u8; 9] = b"sdppeers\0";
pub type __s32 = ::core::ffi::c_int;
pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_traffic {
    pub bcopy_bytes_sent: __u64,
    pub bcopy_bytes_received: __u64,
    pub zcopy_bytes_sent: __u64,
    pub zcopy_bytes_received: __u64,
    pub written_bytes_sent: __u64,
    pub written_bytes_received: __u64,
    pub copied_bytes_written: __u64,
    pub gathered_bytes_sent: __u64,
    pub fetched_bytes_received: __u64,
    pub changed_bytes: __u64,
    pub adverts_sent: __u64,
    pub adverts_received: __u64,
    pub adverts_declined: __u64,
    pub adverts_recalled: __u64,
    pub adverts_withdrawn: __u64,
    pub adverts_unused: __u64,
    pub answers_stale: __u64,
    pub sinks_sent: __u64,
    pub sinks_used: __u64,
    pub sinks_discarded: __u64,
    pub sinks_returned: __u64,
    pub sinks_received: __u64,
    pub sinks_stale: __u64,
    pub cancels_by_signal: __u64,
    pub cancels_by_timeout: __u64,
    pub cancels_by_kill: __u64,
    pub region_hits: __u64,
    pub region_misses: __u64,
    pub region_shortages: __u64,
    pub pin_failures: __u64,
    pub peer_wait_us: __u64,
    pub cache_hits: __u64,
    pub cache_misses: __u64,
    pub copied_nowait_bytes: __u64,
    pub copied_memory_bytes: __u64,
    pub copied_limit_bytes: __u64,
    pub copied_busy_bytes: __u64,
    pub declined_bytes: __u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_borrow {
    pub counter: __u64,
    pub eventfd: __s32,
    pub flags: __u32,
    pub least: __u32,
    pub window_bytes: __u32,
    pub window_runs: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_borrow_counter {
    pub ended: __u32,
    pub gone: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_borrowed {
    pub counter: __u64,
    pub ranges: __u64,
    pub room: __u32,
    pub count: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_borrow_range {
    pub start: __u64,
    pub len: __u32,
    pub id: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_borrow_wait {
    pub id: __u32,
    pub timeout_ms: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_borrow_info {
    pub counter: __u64,
    pub issued: __u32,
    pub ended: __u32,
    pub bytes: __u32,
    pub least: __u32,
    pub window_bytes: __u32,
    pub window_runs: __u32,
    pub adverts: __u32,
    pub reserved: __u32,
    pub ahead: __u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_ahead {
    pub counter: __u64,
    pub least: __u32,
    pub reserved: __u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sdp_ahead_counter {
    pub ended: __u32,
    pub failed: __u32,
    pub filled: __u32,
    pub gone: __u32,
}
