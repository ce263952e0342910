//! Derives a user from the claims of an ID token: a name, the highest role that one of them stands for, and the part of
//! the site that the user reaches. Where the settings name a claim for that part, nobody but an admin gets in without
//! it.
//!
//! Absent: whether the token counts (`oidc.rs`), and whether the name is free (`controller/engine/src/user.rs`).

use data_encoding::BASE64URL_NOPAD;
use muster_api::user::{Role, Scope};
use serde_json::{Map, Value};

/// The claim in place of a name that is not there.
const EMAIL: &str = "email";
/// As OpenID Connect Core bounds it.
const SUBJECT_MAX: usize = 255;
/// The value of a claim that stands for all nodes, or all stacks.
const ALL: &str = "*";

/// A person whom the provider knows, and who has a role here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// As a user of Muster.
    pub name: String,
    pub role: Role,
    pub scope: Scope,
    /// The person's id at the provider, for ever: names change hands there.
    pub subject: String,
}

/// The claims that name and role are taken from.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// The claim with the name.
    pub name_claim: String,
    /// The claim with groups or roles.
    pub roles_claim: String,
    /// The claim with the label of a user's nodes.
    pub label_claim: Option<String>,
    /// The claim with the pattern of a user's stacks.
    pub stacks_claim: Option<String>,
    /// The role for each group.
    pub roles: Vec<(String, Role)>,
}

impl Mapping {
    /// The identity in a token that was verified.
    ///
    /// # Errors
    /// The person has no role here; the text is for that person.
    pub fn identity(&self, issuer: &str, token: &str) -> Result<Identity, String> {
        let claims = payload(token).ok_or("the ID token cannot be read")?;
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str).filter(|text| !text.is_empty());
        let subject = text("sub").ok_or("the ID token has no claim 'sub'")?;
        if subject.len() > SUBJECT_MAX {
            return Err(format!("the claim 'sub' has more than {SUBJECT_MAX} bytes"));
        }
        // An address that nobody has verified may be anybody's.
        let email = || text(EMAIL).filter(|_| claims.get("email_verified") != Some(&Value::Bool(false)));
        let named = if self.name_claim == EMAIL { None } else { text(&self.name_claim) };
        let name = named.or_else(email).ok_or_else(|| {
            format!(
                "the ID token has neither a claim '{}' nor an email: set oidc.name_claim, or oidc.scopes",
                self.name_claim
            )
        })?;
        let name = name.to_ascii_lowercase();
        let role = self.role(claims.get(&self.roles_claim)).ok_or_else(|| {
            format!("{name} has no role here: nothing in the claim '{}' is in [oidc.roles]", self.roles_claim)
        })?;
        let scope = self.scope(role, &claims).map_err(|why| format!("{name} reaches nothing here: {why}"))?;
        Ok(Identity { name, role, scope, subject: format!("{subject} of {issuer}") })
    }

    /// An admin has all of the site, whatever the claims say.
    fn scope(&self, role: Role, claims: &Map<String, Value>) -> Result<Scope, String> {
        if role == Role::Admin {
            return Ok(Scope::default());
        }
        let label = self.label_claim.as_ref().map(|claim| part(claims, claim)).transpose()?.flatten();
        let label = label.map(|label| label.parse()).transpose();
        let label = label.map_err(|error: muster_api::user::NoLabel| error.to_string())?;
        let stacks = self.stacks_claim.as_ref().map(|claim| part(claims, claim)).transpose()?.flatten();
        Ok(Scope { label, stacks: stacks.map(str::to_owned) })
    }

    /// The highest one.
    fn role(&self, claim: Option<&Value>) -> Option<Role> {
        let role_of = |value: &Value| {
            let text = value.as_str()?;
            self.roles.iter().filter(|(name, _)| name == text).map(|(_, role)| *role).max()
        };
        match claim? {
            Value::Array(values) => values.iter().filter_map(role_of).max(),
            value => role_of(value),
        }
    }
}

/// The one text of a claim; `None`: it stands for all.
fn part<'c>(claims: &'c Map<String, Value>, claim: &str) -> Result<Option<&'c str>, String> {
    let text = match claims.get(claim) {
        Some(Value::Array(values)) if values.len() == 1 => values[0].as_str(),
        Some(value) => value.as_str(),
        None => None,
    };
    let text = text.filter(|text| !text.is_empty());
    let text =
        text.ok_or_else(|| format!("the claim '{claim}' must have one text, such as '{ALL}' for all"))?;
    Ok(Some(text).filter(|text| *text != ALL))
}

/// The claims in the middle of the token.
fn payload(token: &str) -> Option<Map<String, Value>> {
    let encoded = token.split('.').nth(1)?;
    match serde_json::from_slice(&BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?).ok()? {
        Value::Object(claims) => Some(claims),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_make_a_name_and_the_highest_role() {
        let mapping = Mapping {
            name_claim: "preferred_username".to_owned(),
            roles_claim: "groups".to_owned(),
            roles: vec![
                ("staff".to_owned(), Role::Viewer),
                ("ops".to_owned(), Role::Operator),
                ("root".to_owned(), Role::Admin),
            ],
            ..Mapping::default()
        };
        for (claims, found) in [
            (
                json!({"sub": "1", "preferred_username": "Anna", "groups": ["staff", "ops"]}),
                Ok(("anna", Role::Operator)),
            ),
            (json!({"sub": "1", "preferred_username": "anna", "groups": "root"}), Ok(("anna", Role::Admin))),
            (
                json!({"sub": "1", "email": "a@example.org", "groups": ["staff"]}),
                Ok(("a@example.org", Role::Viewer)),
            ),
            (
                json!({"sub": "1", "email": "a@b", "email_verified": false, "groups": ["ops"]}),
                Err("neither a claim"),
            ),
            (json!({"sub": "1", "preferred_username": "anna"}), Err("has no role here")),
            (
                json!({"sub": "1", "preferred_username": "anna", "groups": ["Ops", 7, null]}),
                Err("has no role here"),
            ),
            (json!({"sub": "1", "preferred_username": 7, "groups": ["ops"]}), Err("neither a claim")),
            (json!({"preferred_username": "anna", "groups": ["ops"]}), Err("no claim 'sub'")),
            (json!([]), Err("cannot be read")),
        ] {
            let token = format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.to_string().as_bytes()));
            match (mapping.identity("https://id", &token), found) {
                (Ok(identity), Ok((name, role))) => {
                    assert_eq!((&*identity.name, identity.role), (name, role));
                    assert_eq!(identity.subject, "1 of https://id");
                }
                (Err(why), Err(wanted)) => assert!(why.contains(wanted), "{why}, not {wanted}"),
                (found, wanted) => panic!("{claims}: {found:?}, not {wanted:?}"),
            }
        }
        let by_email = Mapping { name_claim: EMAIL.to_owned(), ..mapping.clone() };
        for (verified, is_named) in [(json!(true), true), (json!(false), false)] {
            let claims =
                json!({"sub": "1", "email": "boss@b", "email_verified": verified, "groups": ["ops"]});
            let token = format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.to_string().as_bytes()));
            assert_eq!(by_email.identity("https://id", &token).is_ok(), is_named, "{verified}");
        }
        assert!(mapping.identity("https://id", "x").is_err());
    }

    #[test]
    fn a_claim_says_what_somebody_reaches() {
        let mapping = Mapping {
            name_claim: "preferred_username".to_owned(),
            roles_claim: "groups".to_owned(),
            label_claim: Some("label".to_owned()),
            stacks_claim: Some("stacks".to_owned()),
            roles: vec![("ops".to_owned(), Role::Operator), ("root".to_owned(), Role::Admin)],
        };
        for (group, label, stacks, found) in [
            ("ops", json!("rack=r1"), json!("web-*"), Ok("nodes with rack=r1, stacks web-*")),
            ("ops", json!(["rack=r1"]), json!("*"), Ok("nodes with rack=r1")),
            ("ops", json!("*"), json!("*"), Ok("all of the site")),
            ("root", json!(null), json!(7), Ok("all of the site")),
            ("ops", json!(null), json!("*"), Err("the claim 'label' must have one text")),
            ("ops", json!("*"), json!(""), Err("the claim 'stacks' must have one text")),
            ("ops", json!(["rack=r1", "rack=r2"]), json!("*"), Err("the claim 'label' must have one text")),
            ("ops", json!({"rack": "r1"}), json!("*"), Err("the claim 'label' must have one text")),
            ("ops", json!("rack"), json!("*"), Err("'rack' is no label of nodes")),
        ] {
            let claims = json!({"sub": "1", "preferred_username": "ben", "groups": [group], "label": label, "stacks": stacks});
            let token = format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.to_string().as_bytes()));
            match (mapping.identity("https://id", &token), found) {
                (Ok(identity), Ok(scope)) => assert_eq!(identity.scope.to_string(), scope, "{claims}"),
                (Err(why), Err(wanted)) => {
                    assert!(why.contains(wanted) && why.starts_with("ben reaches nothing here"), "{why}");
                }
                (found, wanted) => panic!("{claims}: {found:?}, not {wanted:?}"),
            }
        }
    }
}
