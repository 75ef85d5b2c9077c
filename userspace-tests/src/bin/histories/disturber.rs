// SPDX-License-Identifier: MIT
//! Makes the events of a plan happen.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::RawFd;
use std::path::Path;

use crate::errno::Errno;
use crate::hosts::{await_that, Hosts, Outcome, PATIENCE_S};
use crate::looks;
use crate::plan::{Plan, Refusal, What};
use crate::sys;

const MODULE: &CStr = c"sdp";

/// The processes of a history, as far as events concern them.
pub trait Processes {
    fn signal(&self, conversation: usize, end: usize, signal: i32);
    fn kill_host(&self, host: usize);
    /// Runs a script in a child, which has to end.
    fn background(&mut self, what: String, script: Box<dyn FnOnce() -> i32 + '_>) -> Outcome<()>;
}

/// The module's file.
fn module_file() -> Option<File> {
    let named = std::env::var("SDP_MODULE").unwrap_or_else(|_| "/run/vm/sdp.ko".into());
    File::open(named).ok()
}

/// Unloads and loads the module. Returns false if it is in use.
pub fn reload(hosts: &Hosts, plan: &Plan) -> Outcome<bool> {
    let Some(file) = module_file() else { return Ok(true) };
    match sys::delete_module(MODULE) {
        Ok(()) => {}
        Err(Errno(libc::EWOULDBLOCK | libc::EBUSY)) => return Ok(false),
        Err(error) => return Err(format!("unloading: {error}")),
    }
    sys::insert_module(&file).map_err(|error| format!("loading: {error}"))?;
    for host in 0..plan.hosts.len() {
        hosts.set_knobs(plan, host)?;
    }
    Ok(true)
}

/// Makes one event happen.
pub fn happen(
    what: &What,
    plan: &Plan,
    hosts: &mut Hosts,
    processes: &mut dyn Processes,
) -> Outcome<()> {
    match *what {
        What::Kill { conversation, end } => processes.signal(conversation, end, libc::SIGKILL),
        What::Stop { conversation, end } => processes.signal(conversation, end, libc::SIGSTOP),
        What::Continue { conversation, end } => processes.signal(conversation, end, libc::SIGCONT),
        What::Signal { conversation, end } => processes.signal(conversation, end, libc::SIGUSR1),
        What::Fault { host, name, value } => hosts.fault(host, name, value)?,
        What::Knob { host, name, value } => hosts.knob(host, name, value)?,
        What::LinkDown { host } => hosts.set_link(host, false)?,
        What::LinkUp { host } => hosts.set_link(host, true)?,
        What::Emulate { host, settings } => hosts.emulate(host, settings)?,
        What::RemoveDevice { host } => {
            let Some(fd) = hosts.fd(host) else { return Ok(()) };
            let remove = move || i32::from(!removed(host, fd));
            processes.background(
                format!("the removal of the device of host {host}"),
                Box::new(remove),
            )?;
        }
        What::AddDevice { host } => {
            let add = || add_again(hosts, host);
            processes.background(format!("a new device for host {host}"), Box::new(add))?;
        }
        What::DeleteHost { host } => {
            processes.kill_host(host);
            hosts.delete(host);
        }
        What::Clock { seconds } => {
            sys::jump(seconds).map_err(|error| format!("the clock: {error}"))?;
        }
        What::Look { host } => {
            if let Some(looked) = hosts.within(host, looks::look)? {
                looked?;
            }
        }
        What::Unload => {
            reload(hosts, plan)?;
        }
    }
    Ok(())
}

fn there(host: usize) -> bool {
    Path::new("/sys/class/infiniband").join(crate::hosts::device(host)).exists()
}

/// Whether the device was removed, by this or by an earlier removal that has not ended yet.
fn removed(host: usize, namespace: RawFd) -> bool {
    await_that("the removal", PATIENCE_S, || {
        Hosts::remove_device(host, namespace).is_ok() || !there(host)
    })
    .is_ok()
}

/// Tries until the removal of the old device has ended.
fn add_again(hosts: &Hosts, host: usize) -> i32 {
    for _ in 0..200 {
        if hosts.add_device(host).is_ok() || hosts.fd(host).is_none() {
            return 0;
        }
        sys::sleep_us(20_000);
    }
    // Another event may have made it, or the link may be down.
    0
}

const FAILURES: &str = "/sys/kernel/debug";

/// Whether the kernel can refuse memory.
pub fn can_refuse() -> bool {
    Path::new(FAILURES).join("failslab").exists()
}

/// Sets the probabilities; only calls of tasks that ask for it fail.
pub fn refuse(refusal: Refusal) -> Outcome<()> {
    if !can_refuse() {
        return Ok(());
    }
    for (kind, percent) in [("failslab", refusal.slab), ("fail_page_alloc", refusal.pages)] {
        let settings = [
            ("task-filter", "Y".into()),
            ("interval", "1".into()),
            ("space", "0".into()),
            ("verbose", "0".into()),
            ("times", "-1".into()),
            ("ignore-gfp-wait", "N".into()),
            ("probability", percent.to_string()),
        ];
        for (name, value) in settings {
            let path = Path::new(FAILURES).join(kind).join(name);
            fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let orders = Path::new(FAILURES).join(kind).join("min-order");
        if orders.exists() {
            fs::write(&orders, "0").map_err(|error| format!("{}: {error}", orders.display()))?;
        }
    }
    Ok(())
}
