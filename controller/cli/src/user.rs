//! `muster user …`: users of the API over the network. Sets how long a token is valid where nothing is said.
//!
//! Absent: what each role may do (`controller/api/src/route.rs`).

use clap::{Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};
use hyper::Method;
use muster_api::user::{CreateUser, NodeLabel, Role, UserCreated, UserRow};
use serde_json::json;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, table, view};
use crate::span;

#[derive(Subcommand)]
pub enum UserVerb {
    /// Make a user, and print the token on stdout: it is shown this once
    #[command(after_help = "Example:\n  muster user create anna --role operator\n  \
                            muster user create grafana --role viewer --ttl 365d > grafana.token\n  \
                            muster user create ben --role operator --scope rack=r1 --stacks 'web-*'\n  \
                            muster user create ci@example.org --role operator --certificate")]
    Create {
        /// 1 to 64 lower-case letters, digits, '-', '_', '.' and '@'
        name: String,
        /// The user's role: see, change, or manage users as well
        #[arg(long, value_parser = PossibleValuesParser::new(Role::NAMES.map(|(name, _)| name)).try_map(|name| name.parse::<Role>()))]
        role: Role,
        /// Time for which the token, or the user with a certificate, is valid
        #[arg(long, value_name = "TIME", default_value = "90d", value_parser = span::within(1..=span::YEAR))]
        ttl: u64,
        /// Nodes with this label alone, and stacks for them
        #[arg(long, value_name = "K=V")]
        scope: Option<NodeLabel>,
        /// Stacks of such names alone; '*' stands for any characters
        #[arg(long, value_name = "PATTERN")]
        stacks: Option<String>,
        /// Make no token: the user shows a certificate with this name, of the CA in controller.api_client_ca
        #[arg(long)]
        certificate: bool,
    },
    /// List users
    #[command(after_help = "Example:\n  muster user list")]
    List,
    /// Revoke a user: the token, or the certificate, is refused from now on
    #[command(after_help = "Example:\n  muster user revoke anna")]
    Revoke {
        /// Name of the user
        name: String,
    },
}

const COLUMNS: [Column<UserRow>; 6] = [
    ("NAME", |user| cell(&user.name)),
    ("ROLE", |user| cell(&user.role)),
    ("BY", |user| cell(&user.by)),
    ("EXPIRES", |user| cell(&user.expires)),
    ("SCOPE", |user| cell(&user.scope)),
    ("STACKS", |user| cell(&user.stacks)),
];

/// Does it.
pub async fn run(verb: UserVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        UserVerb::Create { name, role, ttl, scope, stacks, certificate } => {
            let body = json!(CreateUser { name, role, ttl, scope, stacks, certificate });
            let answer = client.send(Method::POST, &path(["users"]), Some(&body)).await?;
            view(format, &answer, |created: &UserCreated| match created.token.as_str() {
                "" => format!("{} is who shows a certificate with that name\n", created.name),
                token => format!("{token}\n"),
            })
        }
        UserVerb::List => {
            let list = client.get(&path(["users"])).await?;
            view(format, &list, |users: &Vec<UserRow>| table(&COLUMNS, users))
        }
        UserVerb::Revoke { name } => {
            let answer = client.send(Method::DELETE, &path(["users", &name]), None).await?;
            document(format, &answer, |_| format!("user {name} is revoked\n"))
        }
    }
}
