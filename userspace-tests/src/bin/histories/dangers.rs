// SPDX-License-Identifier: MIT
//! Which conversations a plan may end before their time.

use crate::plan::{Finish, Ground, Plan, What};

/// The hosts that an event puts in danger, or the conversation.
enum Danger {
    Host(usize),
    Conversation(usize),
    All,
    None,
}

fn danger(ground: Ground, what: &What) -> Danger {
    match *what {
        What::Kill { conversation, .. } => Danger::Conversation(conversation),
        What::LinkDown { host } if ground == Ground::Tcp => Danger::Host(host),
        What::LinkDown { host } | What::RemoveDevice { host } | What::DeleteHost { host } => {
            Danger::Host(host)
        }
        // The connection managers and neighbours repeat lost datagrams, but not for ever. Packets
        // of rxe are data as well.
        What::Emulate { host, settings } => {
            if settings.contains("loss") || ground == Ground::Rxe {
                Danger::Host(host)
            } else {
                Danger::None
            }
        }
        What::Fault { host, name, value } if value > 0 => match name {
            // A registration that fails on the device ends its queue pair, as the InfiniBand specification
            // says.
            "hold" | "not_ready" | "fail_status" => Danger::None,
            _ => Danger::Host(host),
        },
        // Beyond the limit, closed connections are reset.
        What::Knob { host, name: "max_orphans", .. } => Danger::Host(host),
        // Without sockets it is unloaded, and connections cannot be made.
        What::Unload => Danger::All,
        What::Stop { .. }
        | What::Continue { .. }
        | What::Signal { .. }
        | What::Fault { .. }
        | What::Knob { .. }
        | What::LinkUp { .. }
        | What::AddDevice { .. }
        | What::Look { .. }
        | What::Clock { .. } => Danger::None,
    }
}

/// Sets `certain` of each conversation.
pub fn judge(plan: &mut Plan) {
    let refused = plan.conversations.iter().any(|one| one.ends.iter().any(|end| end.refused));
    let orphans = |host: usize| {
        plan.hosts[host].knobs.iter().any(|&(name, value)| name == "max_orphans" && value != "4096")
    };
    let few: Vec<bool> = (0..plan.hosts.len()).map(orphans).collect();
    for (number, conversation) in plan.conversations.iter_mut().enumerate() {
        let on = |host: usize| conversation.ends.iter().any(|end| end.host == host);
        let early = conversation.ends.iter().any(|end| end.finish != Finish::Orderly);
        let struck = plan.events.iter().any(|event| match danger(plan.ground, &event.what) {
            Danger::Host(host) => on(host),
            Danger::Conversation(one) => one == number,
            Danger::All => true,
            Danger::None => false,
        });
        let crowded = conversation.ends.iter().any(|end| few[end.host]);
        conversation.certain = !(refused || early || struck || crowded);
    }
}
