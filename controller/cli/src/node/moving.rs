//! `muster node move`: a node goes to another site. Makes the join token there, or takes a given one.
//!
//! Absent: which nodes may move (`controller/engine/src/node/moving.rs`), and the move of the agent
//! (`agent/core/src/moving.rs`).

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _};

use clap::{ArgGroup, Args};
use hyper::Method;
use muster_api::node::{CreateToken, MoveNode, NodeMoved, TokenCreated};
use muster_shared::join::TOKEN_MAX;
use muster_shared::{NodeId, SiteId};
use serde_json::json;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, read, view};

/// Seconds for which the token is good that this command makes: the move takes a minute at most.
const MOVE_TOKEN_TTL: u64 = 300;

/// `node move`
#[derive(Args)]
#[command(group(ArgGroup::new("way").args(["to", "token"]).required(true)))]
pub struct Move {
    /// Name of the node
    node: NodeId,
    /// Site of this controller to move to; the command makes a join token there
    #[arg(long = "site", value_name = "SITE")]
    to: Option<SiteId>,
    /// Join token that the site to move to made for the node's name; - reads stdin
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

pub async fn run(change: Move, client: &mut Client, format: Format) -> Result<(), Failure> {
    let Move { node, to, token } = change;
    let token = match (to, token.as_deref()) {
        (Some(site), _) => ask_for_token(&mut client.at_site(site), &node).await?,
        (None, Some("-") | None) => from_stdin()?,
        (None, Some(token)) => token.to_owned(),
    };
    let at = path(["nodes", node.as_str(), "move"]);
    let answer = client.send(Method::POST, &at, Some(&json!(MoveNode { token }))).await?;
    view(format, &answer, |moved: &NodeMoved| {
        format!("{} belongs to site '{}' now\n", moved.name, moved.site)
    })
}

/// A token of another site, for this node alone.
async fn ask_for_token(other: &mut Client, node: &NodeId) -> Result<String, Failure> {
    let token = CreateToken {
        ttl: MOVE_TOKEN_TTL,
        uses: 1,
        name: Some(node.to_string()),
        labels: BTreeMap::new(),
        rate: None,
    };
    let answer = other.send(Method::POST, &path(["tokens"]), Some(&json!(token))).await?;
    Ok(read::<TokenCreated>(&answer)?.token)
}

fn from_stdin() -> Result<String, Failure> {
    let mut line = String::new();
    let most = u64::try_from(TOKEN_MAX).unwrap_or(u64::MAX) + 1;
    std::io::stdin().lock().take(most).read_line(&mut line).map_err(|error| {
        Failure::usage(format!("cannot read the join token from standard input: {error}"))
    })?;
    match line.trim() {
        "" => Err(Failure::usage("standard input has no join token: it must be on the first line")),
        token => Ok(token.to_owned()),
    }
}
