//! ONOS's applications and the owners of Muster: a rule's application is its owner, and an intent's is the first part of
//! its key. Decides which application stands for which owner.

use serde_json::Value;

use crate::document::{Part, Read, shown};

/// Rules of operators, and what comes without an application; ONOS has it of what comes over REST.
pub const REST: &str = "org.onosproject.rest";
/// Rules of intents.
pub const INTENTS: &str = "org.onosproject.net.intent";
/// Intents whose keys have no application.
pub const OWN: &str = "muster";
/// Rules of a stack's resources have the stack's name after this.
const STACK: &str = "stack:";
/// The most bytes of a name.
const NAME_MAX: usize = 100;

/// The name of an application that may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application(String);

impl Default for Application {
    fn default() -> Self {
        Self(REST.to_owned())
    }
}

impl Application {
    /// The text is no name of an application.
    pub fn new(name: &str) -> Result<Self, String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(is_name) {
            true => Ok(Self(name.to_owned())),
            false => Err(format!(
                "'{}' is no application: want 1 to {NAME_MAX} letters, digits, '.', '_' and '-', such as {REST}",
                shown(name)
            )),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of an intent of this application.
    pub fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.0)
    }
}

/// A name, or a number, which ONOS reads as text.
pub fn read(part: &Part<'_>) -> Read<Application> {
    let name = match part.value() {
        Value::Number(number) => Application::new(&number.to_string()),
        _ => Application::new(part.text()?),
    };
    name.map_err(|why| part.wrong(why))
}

/// The application that a document names.
pub fn of_document(part: &Part<'_>) -> Read<Application> {
    Ok(part.get("appId")?.map(|name| read(&name)).transpose()?.unwrap_or_default())
}

/// The application and the key of an intent.
pub fn of_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or((OWN, key))
}

/// The application of an owner, as the API names it.
pub fn of_owner(owner: Option<&str>) -> String {
    match owner {
        None | Some("the operator") => REST.to_owned(),
        Some(owner) if owner.starts_with("intent ") || owner == "an intent that is gone" => {
            INTENTS.to_owned()
        }
        Some(owner) => match owner.rsplit_once(" of stack ") {
            Some((_, stack)) => format!("{STACK}{stack}"),
            None => match owner.strip_prefix("application ") {
                Some(name) => name.to_owned(),
                None => OWN.to_owned(),
            },
        },
    }
}
