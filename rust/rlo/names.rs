// SPDX-License-Identifier: GPL-2.0

//! The standard's names for constants that bindgen prefixes with their type.

#![allow(unused)]

use crate::ffi::*;

/// Completion statuses.
pub(crate) mod status {
    use super::*;
    pub(crate) const SUCCESS: u32 = ib_wc_status_IB_WC_SUCCESS;
    pub(crate) const LOC_LEN_ERR: u32 = ib_wc_status_IB_WC_LOC_LEN_ERR;
    pub(crate) const LOC_QP_OP_ERR: u32 = ib_wc_status_IB_WC_LOC_QP_OP_ERR;
    pub(crate) const LOC_PROT_ERR: u32 = ib_wc_status_IB_WC_LOC_PROT_ERR;
    pub(crate) const WR_FLUSH_ERR: u32 = ib_wc_status_IB_WC_WR_FLUSH_ERR;
    pub(crate) const REM_INV_REQ_ERR: u32 = ib_wc_status_IB_WC_REM_INV_REQ_ERR;
    pub(crate) const REM_ACCESS_ERR: u32 = ib_wc_status_IB_WC_REM_ACCESS_ERR;
    pub(crate) const REM_OP_ERR: u32 = ib_wc_status_IB_WC_REM_OP_ERR;
    pub(crate) const RETRY_EXC_ERR: u32 = ib_wc_status_IB_WC_RETRY_EXC_ERR;
    pub(crate) const RNR_RETRY_EXC_ERR: u32 = ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR;
}

/// States of a queue pair.
pub(crate) mod state {
    use super::*;
    pub(crate) const RESET: u32 = ib_qp_state_IB_QPS_RESET;
    pub(crate) const INIT: u32 = ib_qp_state_IB_QPS_INIT;
    pub(crate) const RTR: u32 = ib_qp_state_IB_QPS_RTR;
    pub(crate) const RTS: u32 = ib_qp_state_IB_QPS_RTS;
    pub(crate) const SQD: u32 = ib_qp_state_IB_QPS_SQD;
    pub(crate) const SQE: u32 = ib_qp_state_IB_QPS_SQE;
    pub(crate) const ERR: u32 = ib_qp_state_IB_QPS_ERR;
}

/// Opcodes of work requests.
pub(crate) mod opcode {
    use super::*;
    pub(crate) const WRITE: u32 = ib_wr_opcode_IB_WR_RDMA_WRITE;
    pub(crate) const WRITE_WITH_IMM: u32 = ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM;
    pub(crate) const SEND: u32 = ib_wr_opcode_IB_WR_SEND;
    pub(crate) const SEND_WITH_IMM: u32 = ib_wr_opcode_IB_WR_SEND_WITH_IMM;
    pub(crate) const SEND_WITH_INV: u32 = ib_wr_opcode_IB_WR_SEND_WITH_INV;
    pub(crate) const READ: u32 = ib_wr_opcode_IB_WR_RDMA_READ;
    pub(crate) const READ_WITH_INV: u32 = ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    pub(crate) const LOCAL_INV: u32 = ib_wr_opcode_IB_WR_LOCAL_INV;
    pub(crate) const REG_MR: u32 = ib_wr_opcode_IB_WR_REG_MR;
}

/// Asynchronous events, by number.
pub(crate) mod event {
    use super::*;
    pub(crate) const CQ_ERR: u32 = ib_event_type_IB_EVENT_CQ_ERR;
    pub(crate) const QP_FATAL: u32 = ib_event_type_IB_EVENT_QP_FATAL;
    pub(crate) const QP_REQ_ERR: u32 = ib_event_type_IB_EVENT_QP_REQ_ERR;
    pub(crate) const QP_ACCESS_ERR: u32 = ib_event_type_IB_EVENT_QP_ACCESS_ERR;
    pub(crate) const COMM_EST: u32 = ib_event_type_IB_EVENT_COMM_EST;
    pub(crate) const SQ_DRAINED: u32 = ib_event_type_IB_EVENT_SQ_DRAINED;
    pub(crate) const SRQ_LIMIT_REACHED: u32 = ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED;
    pub(crate) const LAST_WQE_REACHED: u32 = ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED;
}

/// Flags of send requests.
pub(crate) mod flag {
    use super::*;
    pub(crate) const SIGNALED: u32 = ib_send_flags_IB_SEND_SIGNALED as u32;
    pub(crate) const SOLICITED: u32 = ib_send_flags_IB_SEND_SOLICITED as u32;
    pub(crate) const INLINE: u32 = ib_send_flags_IB_SEND_INLINE as u32;
}
