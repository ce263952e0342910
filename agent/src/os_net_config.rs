//! This program called as `os-net-config`: its options, sections and exit codes over Muster's way to apply
//! a document.
//!
//! If an agent runs here, the document goes to it (`local_socket.rs`) and is kept only if the agent reaches the
//! controller over a new connection. Otherwise the document is applied as by `muster-agent net apply`.
//! Absent: providers and their files.
//!
//! Differences from os-net-config: a failing document is undone completely, and its `fallback_config` applies
//! if that fails. Objects of an earlier document that this one does not name are removed without `--cleanup`.

mod options;
mod sections;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use muster_host::net::{Network, Snapshot};
use muster_host::nic_aliases::{self, Mapped};
use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde_json::{Value, json};

use crate::local_socket::{self, Answer, Request};
use crate::net::local::{self, Local, LocalDocument, RestoreFailed};
use crate::settings::Settings;
use crate::state_dir;
use crate::{net, network};
use options::{Invocation, Options};
use sections::Sections;

/// The name that this program must be called by.
pub const NAME: &str = "os-net-config";
/// The version whose options and exit codes these are.
const VERSION: &str = "18.1.0";

/// Bits of the exit code, as os-net-config's `exit_codes.py` has them.
const ERROR: u16 = 0x1;
const CHANGED: u16 = 0x2;
const NETWORK_FAILED: u16 = 0x4;
const FALLBACK_FAILED: u16 = 0x8;
const MINIMUM_FAILED: u16 = 0x10;
const REMOVE_FAILED: u16 = 0x20;
const PURGE_FAILED: u16 = 0x40;
/// Does not fit an exit status, where a shell would see 0.
const SCHEMA_FAILED: u16 = 0x100;
/// The exit status of Python's argparse.
const WRONG_USAGE: u8 = 2;

pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let options = match options::parse(arguments.iter().cloned()) {
        Ok(Invocation::Run(options)) => options,
        Ok(Invocation::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Invocation::Version) => {
            println!("{VERSION} (muster-agent {})", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{NAME}: error: {error}; see --help");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let ran = Settings::read(None, crate::environment()).and_then(|settings| {
        crate::block_on(Run { options: &options, settings: &settings, arguments }.run())
    });
    let code = ran.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ERROR
    });
    ExitCode::from(status(code, options.detailed_exit_codes))
}

/// The exit status for the shell.
fn status(code: u16, detailed: bool) -> u8 {
    let schema = if code & SCHEMA_FAILED == 0 { 0 } else { ERROR };
    match detailed {
        true => u8::try_from((code & 0xff) | schema).unwrap_or(u8::MAX),
        false if code & !CHANGED == 0 => 0,
        false => 1,
    }
}

/// The fate of one document.
#[derive(Debug, PartialEq, Eq)]
enum Applied {
    Kept { changed: bool },
    Failed { reason: String, not_back: bool },
}

struct Run<'a> {
    options: &'a Options,
    settings: &'a Settings,
    arguments: Vec<OsString>,
}

impl Run<'_> {
    /// # Errors
    /// Nothing was done.
    async fn run(self) -> anyhow::Result<u16> {
        let network = network(self.settings);
        let mapped = self.mapped(&network).await?;
        mapped.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        if let Some(asked) = &self.options.interfaces {
            return Ok(print_interfaces(asked, &mapped.names));
        }
        let file = &self.options.config_file;
        self.say(|| format!("using {}", file.display()));
        let sections = Sections::read(file)?;
        let wrong = sections.wrong();
        for problem in &wrong {
            let level = if self.options.exit_on_validation_errors { "error" } else { "warning" };
            eprintln!("{level}: {}: {problem}", file.display());
        }
        if self.options.exit_on_validation_errors && !wrong.is_empty() {
            return Ok(SCHEMA_FAILED);
        }
        self.refuse_what_cannot_be()?;
        self.apply(&network, sections, &mapped.names).await
    }

    async fn apply(
        &self,
        network: &Network,
        sections: Sections,
        names: &BTreeMap<String, String>,
    ) -> anyhow::Result<u16> {
        let (options, shown) = (self.options, self.options.config_file.display());
        let mut code = 0;
        let removes = options.remove_config && !sections.remove.is_empty();
        if options.remove_config {
            let alone = json!({ "network_config": [], "remove_config": sections.remove });
            if !removes {
                eprintln!("warning: --remove-config: {shown} has no section remove_config");
            } else if let Err(error) = NetworkDocument::parse(&alone) {
                eprintln!("error: remove_config: {error}");
                return Ok(REMOVE_FAILED);
            }
        }
        if sections.network.is_empty() {
            eprintln!("error: {shown}: there is no network_config, or it is empty");
            return Ok(ERROR);
        }
        if options.purge_provider.is_some() {
            eprintln!(
                "error: --purge-provider: Muster removes no other program's files; see 'muster-agent net export'"
            );
            return Ok(PURGE_FAILED);
        }
        if options.minimum_config {
            if sections.minimum.is_empty() {
                eprintln!("error: --minimum-config: {shown} has no section minimum_config");
                code |= MINIMUM_FAILED;
            } else {
                let document = json!({ "network_config": sections.minimum });
                match self.apply_one(network, &document, names).await? {
                    Applied::Kept { changed } => code |= if changed { CHANGED } else { 0 },
                    Applied::Failed { reason, .. } => {
                        eprintln!("error: minimum_config: {reason}");
                        return Ok(MINIMUM_FAILED);
                    }
                }
            }
        }
        if options.no_network_config {
            if removes {
                eprintln!(
                    "error: remove_config: it is part of network_config, which --no-network-config leaves out"
                );
                code |= REMOVE_FAILED;
            }
            return Ok(code);
        }
        let document = sections.document(removes, !options.no_fallback_config);
        Ok(code
            | match self.apply_one(network, &document, names).await? {
                Applied::Kept { changed: true } => CHANGED,
                Applied::Kept { changed: false } => 0,
                Applied::Failed { reason, not_back } => {
                    eprintln!("error: network_config: {reason}");
                    let fell = not_back && document.get("fallback_config").is_some();
                    NETWORK_FAILED | if fell { FALLBACK_FAILED } else { 0 }
                }
            })
    }

    /// Applies a document through the agent that runs here, or without one.
    async fn apply_one(
        &self,
        network: &Network,
        document: &Value,
        names: &BTreeMap<String, String>,
    ) -> anyhow::Result<Applied> {
        let failed = |reason: String| Ok(Applied::Failed { reason, not_back: false });
        let parsed = match NetworkDocument::parse(document) {
            Ok(parsed) => parsed,
            Err(error) => return failed(error.to_string()),
        };
        let text = document.to_string();
        let given = LocalDocument { document: parsed, text, mapping: names.clone() };
        let state_dir = &self.settings.agent.state_dir;
        if self.options.noop {
            return self.print_plan(network, &given, state_dir).await;
        }
        if !self.options.watched && !self.options.no_activate {
            let request = Request {
                document: given.text.clone(),
                mapping: names.clone(),
                confirm_timeout: self.options.confirm_timeout,
            };
            self.say(|| "handing the document to the agent, if one runs here".into());
            match local_socket::hand_over(state_dir, &request).await? {
                Some(Answer::Kept { changed }) => return Ok(Applied::Kept { changed }),
                Some(Answer::Failed { reason, not_back }) => return Ok(Applied::Failed { reason, not_back }),
                None => self.say(|| "no agent runs here".into()),
            }
            if self.options.confirm.is_some() {
                return self.watched(network, state_dir).await;
            }
        }
        self.without_agent(network, &given, state_dir).await
    }

    /// Applies in a separate process, so that the restore happens even if that process is killed.
    async fn watched(&self, network: &Network, state_dir: &Path) -> anyhow::Result<Applied> {
        let words =
            self.arguments.iter().cloned().chain(["--watched".into(), "--detailed-exit-codes".into()]);
        let code = local::watch_over(network, state_dir, words.collect(), Some(NAME)).await?;
        let code = u16::from(code);
        if code & !CHANGED == 0 {
            return Ok(Applied::Kept { changed: code == CHANGED });
        }
        let reason = "it was not applied, as was said before".into();
        Ok(Applied::Failed { reason, not_back: code & FALLBACK_FAILED != 0 })
    }

    async fn without_agent(
        &self,
        network: &Network,
        given: &LocalDocument,
        state_dir: &Path,
    ) -> anyhow::Result<Applied> {
        let state = net::open_idle(state_dir).await?;
        if self.options.no_activate {
            let changed = local::only_record(network, &state, given).await?;
            return Ok(Applied::Kept { changed });
        }
        match net::apply_given(network, &state, given, self.options.confirm.as_ref()).await {
            Ok(applied) => {
                applied.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                applied.steps.iter().for_each(|step| self.say(|| step.to_string()));
                Ok(Applied::Kept { changed: applied.changed() })
            }
            Err(error) => {
                let not_back = error.is::<RestoreFailed>();
                Ok(Applied::Failed { reason: format!("{error:#}"), not_back })
            }
        }
    }

    async fn print_plan(
        &self,
        network: &Network,
        given: &LocalDocument,
        state_dir: &Path,
    ) -> anyhow::Result<Applied> {
        let mapping = NicMapping::new(given.mapping.clone())?;
        match network.plan_text(&given.document, &mapping, known(state_dir)?).await {
            Ok(plan) => {
                plan.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
                plan.lines.iter().for_each(|line| println!("{line}"));
                Ok(Applied::Kept { changed: !plan.lines.is_empty() })
            }
            Err(error) => Ok(Applied::Failed { reason: muster_host::net::chain(&error), not_back: false }),
        }
    }

    /// Refuses options that have no counterpart here and would change the result.
    fn refuse_what_cannot_be(&self) -> anyhow::Result<()> {
        let options = self.options;
        if !options.root_dir.as_os_str().is_empty() && !options.noop {
            bail!(
                "--root-dir: Muster writes no files of another system; the network of this one is all it has"
            );
        }
        if options.persist_mapping {
            eprintln!(
                "warning: --persist-mapping: interfaces keep their names; the document applies to those"
            );
        }
        if options.cleanup {
            eprintln!(
                "warning: --cleanup: not needed: what an earlier document made and this one does not name goes away"
            );
        }
        if options.provider.is_some() {
            self.say(|| "--provider: there is one, the kernel itself".into());
        }
        Ok(())
    }

    async fn mapped(&self, network: &Network) -> anyhow::Result<Mapped> {
        let mapping = read_mapping(&self.options.mapping_file)?;
        let state = network.observe().await?;
        let (active, macs) = (&state.nics, state.macs());
        nic_aliases::mapped(&mapping, active, &macs).map_err(anyhow::Error::msg)
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.options.verbose {
            eprintln!("info: {}", what());
        }
    }
}

/// The state before Muster, as recorded by an agent or an earlier run.
fn known(state_dir: &Path) -> anyhow::Result<Option<Snapshot>> {
    Local::read(state_dir)?.known(&state_dir::entries_unlocked(state_dir))
}

/// Nothing where there is no such file.
fn read_mapping(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    if !file.exists() {
        return Ok(BTreeMap::new());
    }
    let (shown, value) = (file.display(), net::read_value(file)?);
    let entries = match value.get("interface_mapping") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(entries) => {
            entries.as_object().with_context(|| format!("{shown}: interface_mapping is no map"))?
        }
    };
    let text = |(alias, nic): (&String, &Value)| match nic {
        Value::String(nic) => Ok((alias.clone(), nic.clone())),
        _ => bail!("{shown}: interface_mapping.{alias}: want an interface name or a MAC address"),
    };
    entries.iter().map(text).collect()
}

/// Prints as Python's `json.dumps` does.
fn print_interfaces(asked: &[String], names: &BTreeMap<String, String>) -> u16 {
    let mut code = 0;
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for nic in asked {
        match names.get(nic) {
            Some(name) => shown.push((nic, name)),
            None if names.values().any(|name| name == nic) => shown.push((nic, nic)),
            None => code |= ERROR,
        }
    }
    if asked.is_empty() {
        shown.extend(names.iter().map(|(alias, name)| (alias.as_str(), name.as_str())));
    }
    let pair = |(alias, name): (&str, &str)| format!("{}: {}", json!(alias), json!(name));
    println!("{{{}}}", shown.into_iter().map(pair).collect::<Vec<_>>().join(", "));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_bits_or_one() {
        for (code, detailed, plain) in [
            (0, 0, 0),
            (CHANGED, 2, 0),
            (ERROR, 1, 1),
            (NETWORK_FAILED, 4, 1),
            (NETWORK_FAILED | FALLBACK_FAILED, 12, 1),
            (CHANGED | NETWORK_FAILED, 6, 1),
            (MINIMUM_FAILED | CHANGED, 18, 1),
            (REMOVE_FAILED, 32, 1),
            (PURGE_FAILED, 64, 1),
            (SCHEMA_FAILED, 1, 1),
        ] {
            assert_eq!((status(code, true), status(code, false)), (detailed, plain), "{code:#x}");
        }
    }
}
