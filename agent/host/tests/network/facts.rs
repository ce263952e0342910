//! Facts of links as the kernel has them.

use crate::server::NetworkServer;

#[test]
fn links_tell_what_they_are_members_of() {
    let (server, other) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth0", &other, "e0");
    for words in
        ["link add br0 type bridge", "link set eth0 master br0", "link add one type veth peer name two"]
    {
        server.ip(words);
    }
    let links = server.inside(async |network| network.link_facts().await.unwrap());
    let mut ties: Vec<_> = links
        .values()
        .filter(|link| link.name != "lo")
        .map(|link| (&*link.name, link.master.as_deref(), link.lower.as_deref()))
        .collect();
    ties.sort_unstable();
    let wanted = [("br0", None, None), ("eth0", Some("br0"), None), ("one", None, None), ("two", None, None)];
    assert_eq!(ties, wanted);
}
