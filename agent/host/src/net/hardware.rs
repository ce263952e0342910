//! The hardware of a network card, from `/sys`. Values that are absent there are left out.

use std::fs::{canonicalize, read_link, read_to_string};
use std::path::{Path, PathBuf};

use muster_shared::model::{LinkFacts, PciFacts};

/// Adds the hardware of `link`, if it is a card; `sys` is a directory like `/sys/class/net`. The only other
/// way to read most of this is one `ioctl` each.
pub(super) fn complete(sys: &Path, index: u32, link: &mut LinkFacts) {
    let own = sys.join(&link.name);
    let read = |file: &str| read_to_string(own.join(file)).ok();
    let number = |file: &str| read(file)?.trim().parse::<u32>().ok();
    let device = own.join("device");
    // The mounted `/sys` may belong to another namespace.
    if number("ifindex") != Some(index) || !device.exists() {
        return;
    }
    link.full_duplex = match read("duplex").as_deref().map(str::trim) {
        Some("full") => Some(true),
        Some("half") => Some(false),
        Some(_) | None => None,
    };
    // The speed is zero or -1 without a carrier.
    link.speed = number("speed").filter(|speed| *speed > 0 && *speed < u32::MAX);
    link.driver = last(&device.join("driver")).unwrap_or_default();
    link.pci = pci(&device);
    // NET_ADDR_PERM: the address is the card's own. Kernels before 5.6 report no permanent address otherwise.
    if link.permanent_mac.is_none() && number("addr_assign_type") == Some(0) {
        link.permanent_mac = link.mac;
    }
}

/// The PCI device, or the one behind a virtual machine's device. A USB card also has a PCI device above it,
/// but that is its controller.
fn pci(device: &Path) -> Option<PciFacts> {
    let device = canonicalize(device).ok()?;
    let at: PathBuf = match last(&device.join("subsystem"))?.as_str() {
        "pci" => device,
        "virtio" => device.parent()?.to_owned(),
        _ => return None,
    };
    if last(&at.join("subsystem"))? != "pci" {
        return None;
    }
    let id = |file| {
        let text = read_to_string(at.join(file)).ok()?;
        u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    let address = at.file_name()?.to_string_lossy().into_owned();
    Some(PciFacts { address, vendor: id("vendor")?, device: id("device")? })
}

/// The last part of what a symbolic link leads to.
fn last(link: &Path) -> Option<String> {
    Some(read_link(link).ok()?.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree as the kernel makes it: a card on the bus, one of a virtual machine, one on USB.
    #[test]
    fn a_card_is_known_by_its_place() {
        let root = tempfile::tempdir().unwrap();
        let bus = root.path().join("devices/0000:3b:00.0");
        let place = |at: &Path, subsystem: &str, driver: &str| {
            fs::create_dir_all(at).unwrap();
            symlink(format!("../../../bus/{subsystem}"), at.join("subsystem")).unwrap();
            symlink(format!("../../../bus/{subsystem}/drivers/{driver}"), at.join("driver")).unwrap();
        };
        place(&bus, "pci", "ixgbe");
        fs::write(bus.join("vendor"), "0x8086\n").unwrap();
        fs::write(bus.join("device"), "0x1572\n").unwrap();
        place(&bus.join("virtio2"), "virtio", "virtio_net");
        place(&bus.join("1-1"), "usb", "r8152");
        let net = root.path().join("net");
        let found = |name: &str, device: &Path| {
            let own = net.join(name);
            fs::create_dir_all(&own).unwrap();
            let files = [("ifindex", "7"), ("speed", "10000"), ("duplex", "full"), ("addr_assign_type", "0")];
            files.iter().for_each(|(file, content)| fs::write(own.join(file), content).unwrap());
            symlink(device, own.join("device")).unwrap();
            let mut link =
                LinkFacts { name: name.into(), mac: Some([2, 0, 0, 0, 0, 1]), ..LinkFacts::default() };
            complete(&net, 8, &mut link);
            assert_eq!((&*link.driver, link.speed), ("", None), "a name of another namespace");
            complete(&net, 7, &mut link);
            assert_eq!(
                (link.speed, link.full_duplex, link.permanent_mac),
                (Some(10_000), Some(true), link.mac)
            );
            (link.driver, link.pci)
        };
        let pci = PciFacts { address: "0000:3b:00.0".into(), vendor: 0x8086, device: 0x1572 };
        assert_eq!(found("eth0", &bus), ("ixgbe".into(), Some(pci.clone())));
        assert_eq!(found("eth1", &bus.join("virtio2")), ("virtio_net".into(), Some(pci)));
        assert_eq!(found("eth2", &bus.join("1-1")), ("r8152".into(), None));
    }
}
