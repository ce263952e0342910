//! Devices and ports between version 1 and the model, with their bounds.

use super::convert::at_most;
use super::{WireError, v1};
use crate::model::flow::{Bridge, Port};
use crate::model::topology::{Beacon, DevicePorts, HEARD_MAX, PortState, TOLD_DEVICES_MAX, TOLD_PORTS_MAX};

pub(super) fn device_out(device: &DevicePorts) -> v1::DevicePorts {
    let port = |port: &PortState| {
        let heard = port.heard.iter().map(|beacon| beacon.0).collect();
        (port.name.to_string(), port.up, port.beacon.map(|beacon| beacon.0), heard)
    };
    v1::DevicePorts {
        bridge: device.bridge.as_str().to_owned(),
        up: device.up,
        ports: device.ports.iter().map(port).collect(),
    }
}

pub(super) fn devices_in(devices: Vec<v1::DevicePorts>) -> Result<Vec<DevicePorts>, WireError> {
    at_most("devices", devices.len(), TOLD_DEVICES_MAX)?;
    at_most("ports of devices", devices.iter().map(|device| device.ports.len()).sum(), TOLD_PORTS_MAX)?;
    devices.into_iter().map(device_in).collect()
}

fn device_in(device: v1::DevicePorts) -> Result<DevicePorts, WireError> {
    let v1::DevicePorts { bridge, up, ports } = device;
    let bridge = Bridge::try_from(bridge).ok().filter(|bridge| !bridge.is_nftables());
    let bridge = bridge.filter(|_| up || ports.is_empty()).ok_or(WireError::Bounds { field: "device" })?;
    if !ports.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(WireError::Bounds { field: "port" });
    }
    let port = |(name, up, beacon, heard): (String, bool, Option<v1::Beacon>, Vec<v1::Beacon>)| {
        if !Port::is_name(&name) {
            return Err(WireError::Bounds { field: "port" });
        }
        at_most("beacons", heard.len(), HEARD_MAX)?;
        if !heard.is_sorted_by(|a, b| a < b) {
            return Err(WireError::Bounds { field: "beacons" });
        }
        Ok(PortState {
            name: name.into(),
            up,
            beacon: beacon.map(Beacon),
            heard: heard.into_iter().map(Beacon).collect(),
        })
    };
    let ports = ports.into_iter().map(port).collect::<Result<_, _>>()?;
    Ok(DevicePorts { bridge, up, ports })
}
