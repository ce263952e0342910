//! Ports of loopback for servers that a test starts.

use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt,
};

/// A port of 127.0.0.1 that is nobody else's until this process ends.
///
/// A socket without a listener holds it: the kernel gives it to nobody who asks for any port, and lets in a server that asks
/// for this one with `SO_REUSEADDR`, again and again. Between a port that is found free and a server that binds it, another
/// test could take it, and likewise while the server is being started again.
pub fn port() -> u16 {
    let flags = SockFlag::SOCK_CLOEXEC;
    let holder = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    setsockopt(&holder, sockopt::ReuseAddr, &true).unwrap();
    bind(holder.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let port = getsockname::<SockaddrIn>(holder.as_raw_fd()).unwrap().port();
    // Servers may outlive the value that asked for their port.
    std::mem::forget(holder);
    port
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_port_is_free_for_a_server_again_and_again() {
        let port = super::port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens");
        for _ in 0..2 {
            let server = TcpListener::bind(("127.0.0.1", port)).unwrap();
            let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            drop((server.accept().unwrap(), client));
        }
        assert_ne!(super::port(), port);
    }
}
