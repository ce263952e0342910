//! Units, packages and settings of the kernel, between version 1 and the model.

use super::{WireError, v1};
use crate::model::{OnDelete, Package, Presence, Spec, Sysctl, Unit, UnitActive};

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
        _ => Err(WireError::Bounds { field: "spec" }),
    }
}

fn on_delete(keep: bool) -> OnDelete {
    if keep { OnDelete::Keep } else { OnDelete::Restore }
}
