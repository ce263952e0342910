//! Tap devices that stay. The kernel makes them through `/dev/net/tun` alone, not through netlink.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use rtnetlink::packet_core::Nla;
use rtnetlink::packet_route::link::{InfoTun, LinkAttribute};

use super::{Netlink, NetlinkError, Result};

/// `IFLA_TUN_TYPE` and `IFLA_TUN_PERSIST`
const TYPE: u16 = 3;
const PERSIST: u16 = 6;

const IFF_TAP: i16 = 2;
/// Packets without a header of four bytes.
const IFF_NO_PI: i16 = 0x1000;
/// The alias of taps that Muster makes.
pub(super) const MARK: &str = "muster";
const EBUSY: i32 = 16;

/// `struct ifreq` as `TUNSETIFF` reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

mod ioctl {
    nix::ioctl_write_int!(tunsetiff, b'T', 202);
    nix::ioctl_write_int!(tunsetpersist, b'T', 203);
}

impl Netlink {
    /// A tap device, down, in this thread's namespace.
    pub async fn create_tap(&mut self, name: &str) -> Result<()> {
        self.forget_links();
        let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        let device = device.map_err(|error| kernel(&error, "/dev/net/tun"))?;
        let mut request = Request { name: [0; 16], flags: IFF_TAP | IFF_NO_PI, rest: [0; 22] };
        // The last byte stays zero: a name has at most 15.
        for (to, from) in request.name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        let made = set_interface(device.as_raw_fd(), &mut request).and_then(|()| persist(device.as_raw_fd()));
        match made {
            // Another process has the tap open, so it exists.
            Err(errno) if errno as i32 == EBUSY => return Ok(()),
            Err(errno) => return Err(NetlinkError::Kernel { code: errno as i32, detail: None }),
            Ok(()) => {}
        }
        self.change(name, |link| link.append_extra_attribute(LinkAttribute::IfAlias(MARK.to_owned()))).await
    }
}

#[allow(
    unsafe_code,
    reason = "an ioctl; the pointer is to a struct of our own that is as large as the kernel reads"
)]
fn set_interface(device: i32, request: &mut Request) -> nix::Result<()> {
    let pointer = std::ptr::from_mut(request) as nix::sys::ioctl::ioctl_param_type;
    // SAFETY: `device` is open, and the kernel reads and writes no more than `struct ifreq`, which
    // `Request` is.
    unsafe { ioctl::tunsetiff(device, pointer) }.map(drop)
}

#[allow(unsafe_code, reason = "an ioctl that takes a number")]
fn persist(device: i32) -> nix::Result<()> {
    // SAFETY: `device` is open, and the argument is a number.
    unsafe { ioctl::tunsetpersist(device, 1) }.map(drop)
}

fn kernel(error: &std::io::Error, what: &str) -> NetlinkError {
    NetlinkError::Kernel { code: error.raw_os_error().unwrap_or(0), detail: Some(what.to_owned()) }
}

/// Whether this is a persistent tap device.
pub(super) fn is_tap(infos: &[InfoTun]) -> bool {
    let is = |kind: u16, wanted: u8| {
        infos.iter().filter(|info| info.kind() == kind).any(|info| {
            let mut value = vec![0; info.value_len()];
            info.emit_value(&mut value);
            value.first() == Some(&wanted)
        })
    };
    is(TYPE, 2) && is(PERSIST, 1)
}
