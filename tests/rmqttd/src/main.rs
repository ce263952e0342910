//! rmqtt as `examples/rmqtt` sets it up, for tests: its broker with the plugins that the example names. The program
//! `rmqttd` of crates.io has twenty more, among them clients of Kafka and Pulsar, and takes three times as long to build.

use anyhow::Context as _;
use clap::Parser as _;
use rmqtt::args::CommandArgs;
use rmqtt::context::ServerContext;
use rmqtt::net::{Builder, tls_provider};
use rmqtt::node::Node;
use rmqtt::server::MqttServer;
use rmqtt_conf::listener::Listener;
use rmqtt_conf::{Options, Settings};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::init(Options::parse())?;
    env_logger::Builder::new().filter_level(settings.log.level.as_str().parse()?).init();
    tls_provider::default_provider().install_default().ok().context("there is a provider of TLS already")?;

    let (asked, node) = (&settings.opts, &settings.node);
    let arguments = CommandArgs {
        node_id: asked.node_id,
        plugins_default_startups: asked.plugins_default_startups.clone(),
        node_grpc_addrs: asked.node_grpc_addrs.clone(),
        raft_peer_addrs: asked.raft_peer_addrs.clone(),
        raft_leader_id: asked.raft_leader_id,
    };
    let context = ServerContext::new()
        .args(arguments)
        .node(Node::new(node.id, node.busy.loadavg, node.busy.cpuloadavg, node.busy.update_interval))
        .busy_check_enable(node.busy.check_enable)
        .busy_handshaking_limit(node.busy.handshaking)
        .task_exec_workers(settings.task.exec_workers)
        .task_exec_queue_max(settings.task.exec_queue_max)
        .mqtt_max_sessions(settings.mqtt.max_sessions)
        .plugins_config_dir(&settings.plugins.dir)
        .build()
        .await;
    let rpc = &settings.rpc;
    context.node.start_grpc_server(context.clone(), rpc.server_addr, rpc.reuseaddr, rpc.reuseport);
    rmqtt_acl::register_named(&context, "rmqtt-acl", true, false).await?;
    rmqtt_cluster_raft::register_named(&context, "rmqtt-cluster-raft", true, true).await?;

    let mut server = MqttServer::new(context);
    for listener in settings.listeners.tlss.values() {
        let bound = of(listener).bind().with_context(|| format!("cannot listen on {}", listener.addr))?;
        server = server.listener(bound.tls()?);
    }
    server.build().start();
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

/// The settings that the example gives, and those whose defaults are not the library's.
fn of(listener: &Listener) -> Builder {
    Builder::new()
        .name(listener.name.as_str())
        .laddr(listener.addr)
        .tls_cert(listener.cert.clone())
        .tls_key(listener.key.clone())
        .tls_client_ca_certs(listener.client_ca_certs.clone())
        .tls_cross_certificate(listener.cross_certificate)
        .nodelay(listener.nodelay)
        .reuseaddr(listener.reuseaddr)
        .reuseport(listener.reuseport)
        .allow_anonymous(listener.allow_anonymous)
        .max_packet_size(listener.max_packet_size.as_u32())
        .max_inflight(listener.max_inflight)
        .max_mqueue_len(listener.max_mqueue_len)
        .mqueue_rate_limit(listener.mqueue_rate_limit.0, listener.mqueue_rate_limit.1)
        .max_qos_allowed(listener.max_qos_allowed)
        .max_topic_levels(listener.max_topic_levels)
        .max_connections(listener.max_connections)
        .max_handshaking_limit(listener.max_handshaking_limit)
        .handshake_timeout(listener.handshake_timeout)
        .session_expiry_interval(listener.session_expiry_interval)
        .max_session_expiry_interval(listener.max_session_expiry_interval)
}
