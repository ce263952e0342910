//! `Muster::Package`: a package of the server's own distribution.

use muster_shared::model::{
    PACKAGE_TIMEOUT_MAX, Package, PackageError, Presence, check_package_name, check_package_version,
};
use serde_json::Value;

use super::value::{check_node, check_on_delete, flag, integer, on_delete, presence, text, unwanted};
use super::{Given, Property, PropertyError, PropertyType};
use crate::error::cut;

/// Seconds: as long as a slow mirror and a large package take, with somebody else's upgrade before them.
const TIMEOUT: u32 = 1800;

pub(super) static PROPERTIES: [Property; 7] = [
    Property::optional("held", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "upgrades leave it alone; left as it is where this is left out"),
    Property::required("name", |value| name(value).map(drop))
        .is(PropertyType::String, "its name, as apt or dnf has it")
        .replaces(),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
    Property::optional("state", |value| presence(value).map(drop))
        .is(PropertyType::String, "whether it is there")
        .default("\"present\"")
        .one_of(&["present", "absent"]),
    Property::optional("timeout", |value| timeout(value).map(drop))
        .is(PropertyType::Integer, "seconds for all of it, waiting for others who install included")
        .default("1800")
        .range(1, PACKAGE_TIMEOUT_MAX as u64),
    Property::optional("version", |value| version(value).map(drop)).is(
        PropertyType::String,
        "this version and no other, as apt or dnf has it; any, where it is left out",
    ),
];

pub(super) fn spec(given: &Given<'_>) -> Result<Package, PropertyError> {
    let package = Package {
        name: given.required("name", name)?,
        version: given.get("version", version)?,
        state: given.get("state", presence)?.unwrap_or(Presence::Present),
        held: given.get("held", flag)?,
        timeout: given.get("timeout", timeout)?.unwrap_or(TIMEOUT),
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    };
    package.check().map_err(wrong)?;
    Ok(package)
}

fn name(value: &Value) -> Result<String, PropertyError> {
    let Value::String(name) = value else { return Err(unwanted("the name of a package", value)) };
    match check_package_name(name) {
        Ok(()) => Ok(name.clone()),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(name)))),
    }
}

fn version(value: &Value) -> Result<String, PropertyError> {
    let version = text(value)?;
    match check_package_version(&version) {
        Ok(()) => Ok(version),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(&version)))),
    }
}

fn timeout(value: &Value) -> Result<u32, PropertyError> {
    let seconds = integer(value, 1, PACKAGE_TIMEOUT_MAX.into())?;
    u32::try_from(seconds).map_err(|_| wrong(PackageError::Timeout))
}

fn wrong(error: PackageError) -> PropertyError {
    PropertyError::new(error.to_string())
}
