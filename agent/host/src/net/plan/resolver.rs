//! Decides which steps lead to the wanted resolver's settings, and refuses where others write its file.
//!
//! Absent: reading and writing the files (`net/resolver.rs`).

use super::super::resolver::{Resolver, ResolverFile, drop_in, resolv_conf};
use super::super::step::Step;
use super::super::wanted::WantedResolver;
use super::PlanError;

/// A new file can be read by all.
const MODE: u32 = 0o644;

/// The steps to the desired resolver settings; empty if they are in force.
pub fn plan(wanted: &WantedResolver, now: &Resolver) -> Result<Vec<Step>, PlanError> {
    let file = |file, content: Option<String>, mode| Step::SetResolver { file, content, mode };
    let in_place = |content: String, mode| file(ResolverFile::ResolvConf, Some(content), mode);
    let by_resolved = |content| vec![file(ResolverFile::DropIn, content, MODE), Step::ReloadResolved];
    Ok(match (wanted, now) {
        (WantedResolver::Document(dns), Resolver::Foreign { what }) => {
            let problem = format!(
                "the resolver's file {what}; leave this out and say it there, or make it a plain file"
            );
            return Err(PlanError::new(&dns.path, problem));
        }
        (WantedResolver::Document(dns), Resolver::Absent) => vec![in_place(resolv_conf(dns, None), MODE)],
        (WantedResolver::Document(dns), Resolver::Plain { content, mode }) => {
            let new = resolv_conf(dns, Some(content));
            if new == *content { Vec::new() } else { vec![in_place(new, *mode)] }
        }
        (WantedResolver::Document(dns), Resolver::Resolved { drop_in: now }) => {
            let new = drop_in(dns);
            if now.as_ref() == Some(&new) { Vec::new() } else { by_resolved(Some(new)) }
        }
        (WantedResolver::Before(before), now) if before == now => Vec::new(),
        (WantedResolver::Before(Resolver::Plain { content, mode }), _) => {
            vec![in_place(content.clone(), *mode)]
        }
        (WantedResolver::Before(Resolver::Absent), Resolver::Plain { .. }) => {
            vec![file(ResolverFile::ResolvConf, None, MODE)]
        }
        (WantedResolver::Before(Resolver::Resolved { drop_in }), Resolver::Resolved { .. }) => {
            by_resolved(drop_in.clone())
        }
        // A later owner of the file keeps it.
        (WantedResolver::Before(_), _) => Vec::new(),
    })
}
