//! Wrong usage: clap's message, with the words of other tools translated to ours.

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error};

use crate::Cli;

/// Verbs of other tools, and our verbs with that meaning. The first that a noun has is suggested.
const VERBS: [(&[&str], &[&str]); 9] = [
    (&["remove", "rm", "del", "destroy", "drop"], &["delete", "remove", "purge", "withdraw"]),
    (&["delete"], &["remove", "purge", "withdraw"]),
    (&["get", "describe", "info", "status", "inspect"], &["show"]),
    (&["ls", "all"], &["list"]),
    (&["add", "new", "make", "up", "deploy"], &["create", "apply", "submit", "token"]),
    (&["apply", "set", "change", "upgrade", "edit"], &["update", "apply", "submit", "label"]),
    (&["plan", "diff", "dry-run"], &["preview"]),
    (&["log", "logs", "history"], &["events"]),
    (&["abort", "stop", "undo", "revert", "drain"], &["cancel", "rollback", "maintenance"]),
];

/// Flags of other tools, and the alternatives here.
const FLAGS: [(&str, &str); 3] = [
    ("--dry-run", "'muster stack preview' shows what would change"),
    ("--force", "'muster stack cancel' stops an operation, a newer one takes the place of an older one"),
    ("--parameter-defaults", "-e takes an environment with parameter_defaults"),
];

/// Prints the error, and ends with clap's exit code; `--help` and `--version` also come here.
pub fn refuse(mut error: Error) -> ! {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    improve(&mut error, &arguments);
    error.exit()
}

fn improve(error: &mut Error, arguments: &[String]) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    if let Some(verb) = text(ContextKind::InvalidSubcommand).and_then(|wrong| meant(&wrong, arguments)) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![verb]));
    }
    let flag = text_of_argument(error).and_then(|wrong| FLAGS.iter().find(|(flag, _)| *flag == wrong));
    if let Some((_, instead)) = flag {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(*instead)]));
    }
    // The list above it shows all values.
    if text_of_argument(error).is_some_and(|wrong| wrong.starts_with("--output ")) {
        error.remove(ContextKind::SuggestedValue);
    }
    // A flag from the environment would look as if it had to be given.
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        let plain = usage.to_string();
        if let Some((before, after)) = plain.split_once(" --url <URL>") {
            let usage = StyledStr::from(format!("{before}{after}"));
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        }
    }
}

fn text_of_argument(error: &Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Our verb of the noun that was asked for.
fn meant(wrong: &str, arguments: &[String]) -> Option<String> {
    let command = Cli::command();
    let noun = arguments.iter().find_map(|argument| command.find_subcommand(argument))?;
    let ours = VERBS.iter().filter(|(theirs, _)| theirs.contains(&wrong)).flat_map(|(_, ours)| *ours);
    ours.copied().find(|verb| noun.find_subcommand(verb).is_some()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The text that an operator reads.
    fn said(line: &str) -> String {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let all = std::iter::once("muster".to_owned()).chain(arguments.iter().cloned());
        let mut error = Cli::try_parse_from(all).err().expect("wrong usage");
        improve(&mut error, &arguments);
        error.render().to_string()
    }

    #[test]
    fn verbs_of_other_tools() {
        for (line, verb) in [
            ("stack remove web", "delete"),
            ("stack rm web", "delete"),
            ("node delete web-1", "remove"),
            ("node rm web-1", "remove"),
            ("flow remove web-1/br0", "delete"),
            ("intent delete a", "purge"),
            ("stack describe web", "show"),
            ("stack ls", "list"),
            ("stack diff web", "preview"),
            ("stack logs web", "events"),
            ("stack apply web", "update"),
            ("flow add", "apply"),
            ("stack abort web", "cancel"),
        ] {
            let said = said(line);
            assert!(said.contains(&format!("a similar subcommand exists: '{verb}'")), "{line}: {said}");
        }
        assert!(said("stack fly").contains("unrecognized subcommand 'fly'"));
    }

    #[test]
    fn flags_of_other_tools() {
        let said = said("stack update web --dry-run");
        assert!(said.contains("tip: 'muster stack preview' shows what would change"), "{said}");
        assert!(!said.contains("to pass"), "{said}");
    }

    #[test]
    fn all_forms_of_output_are_listed_and_none_is_guessed() {
        let said = said("node list -o xml");
        assert!(
            said.contains("invalid value 'xml'") && said.contains("[possible values: table, json, yaml]")
        );
        assert!(!said.contains("similar"), "{said}");
    }

    #[test]
    fn a_revision_is_a_number() {
        let said = said("stack rollback web --to last");
        assert!(said.contains("takes a revision's number, as 'muster stack revisions' lists them"), "{said}");
    }

    #[test]
    fn what_the_environment_gives_is_not_asked_for() {
        let said = said("stack create --url unix:///run/x.sock");
        assert!(said.contains("Usage: muster stack create") && !said.contains("--url"), "{said}");
    }

    #[test]
    fn times_say_what_they_take() {
        for line in [
            "stack update web --timeout abc",
            "stack delete web --wait --timeout 5x",
            "flow purge a/b --wait --timeout abc",
            "node wait --count 3 --timeout soon",
            "flow apply -f x --confirm-timeout abc",
        ] {
            let said = said(line);
            assert!(said.contains("takes seconds, or a time such as 90s, 5m or 1h"), "{line}: {said}");
            assert!(said.contains("timeout <SECONDS>"), "{line}: {said}");
        }
        assert!(said("flow apply -f x --confirm-timeout 2h").contains("takes 1 to 3600 seconds"));
    }
}
