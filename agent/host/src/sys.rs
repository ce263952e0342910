//! What only the C library can do. The one place of `unsafe` in the agent.
//!
//! A job on a large network needs megabytes for a moment, and the agent waits for months in between: what is freed is
//! given back to the kernel. glibc by itself keeps it, and the more so the more was freed at once.
#![allow(
    unsafe_code,
    reason = "the allocator is set by calls of C, and a child before it is another program"
)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// Pieces from this size on are the kernel's own, returned when they are freed and moved rather than copied when they
/// grow; and so much may be unused at the heap's end.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 128 * 1024;

/// Sets the allocator once, when the process starts: glibc would raise what counts as large with the first large piece
/// that is freed.
pub fn set_allocator() {
    #[cfg(target_env = "gnu")]
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: it takes two numbers and locks what it changes.
        unsafe { libc::mallopt(parameter, LARGE) };
    }
}

/// Gives back what is free, also in between. Takes less than a millisecond.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and touches only what is free, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The command is killed when the thread that starts it ends, however that comes about.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) };
}
