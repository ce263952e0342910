//! Functions that only the C library offers. The only `unsafe` code of the agent.
//!
//! A job on a large network needs megabytes for a moment, and the agent waits for months in between, so freed
//! memory is returned to the kernel. By default glibc keeps it, and keeps more the more was freed at once.
#![allow(
    unsafe_code,
    reason = "the allocator, packet sockets, a child before it is another program and the state of the clock are calls of C"
)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// Pieces from this size on are the kernel's own, returned when they are freed and moved rather than copied
/// when they grow; and so much may be unused at the heap's end.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 128 * 1024;

/// Sets the allocator's thresholds once, when the process starts: otherwise glibc raises them with the first
/// large block that is freed.
pub fn set_allocator() {
    #[cfg(target_env = "gnu")]
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: `mallopt` takes two numbers and locks the state it changes.
        unsafe { libc::mallopt(parameter, LARGE) };
    }
}

/// Returns free memory to the kernel, also from the middle of the heap. Takes less than a millisecond.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes a number and touches only free memory, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Whether something keeps the kernel's clock right, as NTP's programs tell it. Reads only.
///
/// # Errors
/// The kernel does not say it.
pub fn clock_is_synchronised() -> io::Result<bool> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives until the call is over; with no mode set, nothing is changed.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(state.status & libc::STA_UNSYNC == 0)
}

/// Kills the command when the thread that starts it ends, however that happens.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec, the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) };
}

/// A packet socket that receives the whole frames of one interface from its driver, as far as the filter
/// passes them; the card subscribes to the groups. Reading does not block.
///
/// # Errors
/// The kernel's error; the socket needs `CAP_NET_RAW`.
pub fn packet_socket(
    interface: u32,
    groups: &[[u8; 6]],
    filter: &[libc::sock_filter],
) -> io::Result<OwnedFd> {
    let index = i32::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: `socket` takes three numbers. Without a protocol nothing arrives before the socket is bound.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // Otherwise the kernel copies every sent frame for the filter to inspect; before 4.20 it always does.
    let _ = set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(), // the kernel copies it
    };
    set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    for group in groups {
        let mut address = [0; 8];
        address[..6].copy_from_slice(group);
        let membership = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_MULTICAST as u16,
            mr_alen: 6,
            mr_address: address,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address has the given size, and lives until the call is over.
    let bound = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    };
    if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the value has the given size, and lives until the call is over.
    let result = unsafe {
        let value: *const T = value;
        libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), size_of::<T>() as libc::socklen_t)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
