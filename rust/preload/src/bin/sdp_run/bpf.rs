// SPDX-License-Identifier: MIT

//! bpf(2): the program loaded, and attached to `update_socket_protocol()`.

use crate::descriptor::given;
use crate::members;
use crate::program::{self, FlagsAt};
use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_map_type, bpf_prog_type};
use libc::{c_int, c_long};
use object::Endianness;
use std::fs::{self, File};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

/// Called for each socket(2), so that programs may change the protocol.
const FUNCTION: &str = "update_socket_protocol";

/// The kernel's description of its types (BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

const LICENSE: &[u8] = b"Dual MIT/GPL\0";

/// The kernel's errno if it does not support this at all. User space has no name for it.
const ENOTSUPP: c_int = 524;

/// The target of the program: the number of the function among the kernel's types, and, if
/// sandboxed tasks are to be left out, the offset of the flags in a task.
pub(crate) struct Target {
    function: u32,
    confined: Option<FlagsAt>,
}

impl Target {
    /// The error names what is missing.
    pub(crate) fn find(spare_the_confined: bool) -> Result<Self, String> {
        let types = fs::read(TYPES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "this kernel does not say what its functions are (CONFIG_DEBUG_INFO_BTF)".into()
            }
            _ => format!("{TYPES}: {error}"),
        })?;
        let function = Btf::parse(&types, Endianness::default())
            .map_err(|error| format!("{TYPES}: {error}"))?
            .id_by_type_name_kind(FUNCTION, BtfKind::Func)
            .map_err(|_| format!("this kernel has no function {FUNCTION}()"))?;
        let confined = spare_the_confined
            .then(|| {
                members::offset(&types, "task_struct", "atomic_flags")
                    .and_then(|offset| offset.try_into().ok())
                    .map(FlagsAt)
                    .ok_or("this kernel does not say where its tasks have no_new_privs")
            })
            .transpose()?;
        Ok(Self { function, confined })
    }

    /// Until the descriptor is closed, sockets of the processes in `cgroup` and below it are SDP
    /// sockets. The error names what is missing.
    pub(crate) fn attach(&self, cgroup: &File) -> Result<OwnedFd, String> {
        let map = cgroup_map(cgroup).map_err(|error| refusal(&error))?;
        let program = load(&map, self).map_err(|error| refusal(&error))?;
        link(&program).map_err(|error| refusal(&error))
    }
}

/// The meaning of an error of bpf(2) here.
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "not permitted to load BPF programs (root may, or CAP_BPF with CAP_PERFMON)".into()
        }
        Some(libc::ENOSYS) => "this kernel has no bpf() (CONFIG_BPF_SYSCALL)".into(),
        Some(libc::EINVAL) => format!(
            "this kernel lets no program change {FUNCTION}() (CONFIG_MPTCP, CONFIG_BPF_EVENTS)"
        ),
        Some(ENOTSUPP | libc::EOPNOTSUPP) => format!(
            "this kernel attaches no program to {FUNCTION}() \
             (CONFIG_BPF_JIT, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)"
        ),
        Some(libc::E2BIG) => format!("too many programs are attached to {FUNCTION}()"),
        _ => format!("bpf: {error}"),
    }
}

fn cgroup_map(cgroup: &File) -> io::Result<OwnedFd> {
    let mut attributes = nothing();
    // SAFETY: Every member of a union of plain numbers may be written.
    let create = unsafe { &mut attributes.__bindgen_anon_1 };
    create.map_type = bpf_map_type::BPF_MAP_TYPE_CGROUP_ARRAY as u32;
    create.key_size = 4;
    create.value_size = 4;
    create.max_entries = 1;
    let map = descriptor(bpf_cmd::BPF_MAP_CREATE, &mut attributes)?;

    let (key, value) = (0u32, cgroup.as_raw_fd());
    let mut attributes = nothing();
    // SAFETY: Every member of a union of plain numbers may be written.
    let element = unsafe { &mut attributes.__bindgen_anon_2 };
    element.map_fd = number(&map);
    element.key = address(&raw const key);
    element.__bindgen_anon_1.value = address(&raw const value);
    if call(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attributes) != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(map)
}

fn load(map: &OwnedFd, target: &Target) -> io::Result<OwnedFd> {
    let instructions = program::instructions(map.as_raw_fd(), target.confined);
    let mut attributes = nothing();
    // SAFETY: Every member of a union of plain numbers may be written.
    let load = unsafe { &mut attributes.__bindgen_anon_3 };
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_TRACING as u32;
    load.expected_attach_type = bpf_attach_type::BPF_MODIFY_RETURN as u32;
    load.attach_btf_id = target.function;
    load.insns = address(instructions.as_ptr());
    load.insn_cnt = u32::try_from(instructions.len()).map_err(io::Error::other)?;
    load.license = address(LICENSE.as_ptr());
    for (to, from) in load.prog_name.iter_mut().zip(c"sdp_run".to_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attributes)
}

fn link(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attributes = nothing();
    // SAFETY: Every member of a union of plain numbers may be written.
    let create = unsafe { &mut attributes.link_create };
    create.__bindgen_anon_1.prog_fd = number(program);
    create.attach_type = bpf_attach_type::BPF_MODIFY_RETURN as u32;
    descriptor(bpf_cmd::BPF_LINK_CREATE, &mut attributes)
}

fn nothing() -> bpf_attr {
    // SAFETY: A union of plain numbers, and all may be zero.
    unsafe { zeroed() }
}

fn address<T>(of: *const T) -> u64 {
    of.expose_provenance() as u64
}

fn number(of: &OwnedFd) -> u32 {
    u32::from_ne_bytes(of.as_raw_fd().to_ne_bytes())
}

/// A command that returns a new descriptor, which is closed on exec.
fn descriptor(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<OwnedFd> {
    let answer = call(command, attributes);
    // SAFETY: The command returns a new descriptor.
    unsafe { given(answer) }
}

fn call(command: bpf_cmd, attributes: &mut bpf_attr) -> c_long {
    // SAFETY: The attributes are the command's. The memory that they point at outlives the
    // call and has the length that the command expects.
    unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as c_int,
            &raw mut *attributes,
            size_of::<bpf_attr>(),
        )
    }
}
