//! Units, packages, accounts and settings of the kernel, between version 1 and the model.

use super::{WireError, v1};
use crate::model::{Group, OnDelete, Package, PasswordHash, Presence, Spec, Sysctl, Unit, UnitActive, User};

pub fn unit_out(unit: &Unit) -> v1::Spec {
    v1::Spec::Unit {
        name: unit.name.clone(),
        content: unit.content.clone(),
        drop_ins: unit.drop_ins.clone(),
        enabled: unit.enabled,
        started: unit.active.map(|active| active == UnitActive::Started),
        masked: unit.masked,
        restart_on: unit.restart_on.clone(),
        reload_on: unit.reload_on.clone(),
        settle_s: unit.settle,
        keep: unit.on_delete == OnDelete::Keep,
    }
}

pub fn sysctl_out(sysctl: &Sysctl) -> v1::Spec {
    v1::Spec::Sysctl {
        key: sysctl.key.clone(),
        value: sysctl.value.clone(),
        keep: sysctl.on_delete == OnDelete::Keep,
    }
}

pub fn package_out(package: &Package) -> v1::Spec {
    v1::Spec::Package {
        name: package.name.clone(),
        version: package.version.clone(),
        absent: package.state == Presence::Absent,
        held: package.held,
        timeout_s: package.timeout,
        keep: package.on_delete == OnDelete::Keep,
    }
}

pub fn user_out(user: &User) -> v1::Spec {
    v1::Spec::User {
        name: user.name.clone(),
        uid: user.uid,
        group: user.group.clone(),
        groups: user.groups.clone(),
        home: user.home.clone(),
        shell: user.shell.clone(),
        comment: user.comment.clone(),
        system: user.system,
        password_hash: user.password_hash.as_ref().map(|hash| hash.reveal().to_owned()),
        authorized_keys: user.authorized_keys.clone(),
        locked: user.locked,
        keep: user.on_delete == OnDelete::Keep,
    }
}

pub fn group_out(group: &Group) -> v1::Spec {
    v1::Spec::Group {
        name: group.name.clone(),
        gid: group.gid,
        system: group.system,
        members: group.members.clone(),
        keep: group.on_delete == OnDelete::Keep,
    }
}

/// Of the types in this file; nothing else is asked for.
pub fn spec_in(spec: v1::Spec) -> Result<Spec, WireError> {
    match spec {
        v1::Spec::Unit {
            name,
            content,
            drop_ins,
            enabled,
            started,
            masked,
            restart_on,
            reload_on,
            settle_s,
            keep,
        } => {
            let active = started.map(|on| if on { UnitActive::Started } else { UnitActive::Stopped });
            let unit = Unit {
                name,
                content,
                drop_ins,
                enabled,
                active,
                masked,
                restart_on,
                reload_on,
                settle: settle_s,
                on_delete: on_delete(keep),
            };
            unit.check().map_err(|_| WireError::Bounds { field: "unit" })?;
            Ok(Spec::Unit(unit))
        }
        v1::Spec::Sysctl { key, value, keep } => {
            let sysctl = Sysctl { key, value, on_delete: on_delete(keep) };
            sysctl.check().map_err(|_| WireError::Bounds { field: "sysctl" })?;
            Ok(Spec::Sysctl(sysctl))
        }
        v1::Spec::Package { name, version, absent, held, timeout_s, keep } => {
            let state = if absent { Presence::Absent } else { Presence::Present };
            let package =
                Package { name, version, state, held, timeout: timeout_s, on_delete: on_delete(keep) };
            package.check().map_err(|_| WireError::Bounds { field: "package" })?;
            Ok(Spec::Package(package))
        }
        v1::Spec::User {
            name,
            uid,
            group,
            groups,
            home,
            shell,
            comment,
            system,
            password_hash,
            authorized_keys,
            locked,
            keep,
        } => {
            let wrong = |_| WireError::Bounds { field: "user" };
            let password_hash = password_hash.map(PasswordHash::new).transpose().map_err(wrong)?;
            let user = User {
                name,
                uid,
                group,
                groups,
                home,
                shell,
                comment,
                system,
                password_hash,
                authorized_keys,
                locked,
                on_delete: on_delete(keep),
            };
            user.check().map_err(wrong)?;
            Ok(Spec::User(user))
        }
        v1::Spec::Group { name, gid, system, members, keep } => {
            let group = Group { name, gid, system, members, on_delete: on_delete(keep) };
            group.check().map_err(|_| WireError::Bounds { field: "group" })?;
            Ok(Spec::Group(group))
        }
        _ => Err(WireError::Bounds { field: "spec" }),
    }
}

fn on_delete(keep: bool) -> OnDelete {
    if keep { OnDelete::Keep } else { OnDelete::Restore }
}
