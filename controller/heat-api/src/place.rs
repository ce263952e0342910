//! Finds the stack, or the part of one, that a path of Heat's API is about. Heat has stacks by name and id, and a
//! nested stack is a stack; here nested stacks are parts of one graph (`nested.rs`), and their ids lead to them.

use axum::extract::{Path, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use muster_api::resource::ResourceView;
use muster_api::stack::{StackRow, StackView};
use muster_front::path;
use serde_json::{Value, json};

use crate::Heat;
use crate::caller::Asking;
use crate::client::Client;
use crate::fault::Fault;
use crate::id::Id;
use crate::nested;

/// A stack, or what a resource of it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Muster's stack.
    pub stack: String,
    /// The stack's number.
    pub number: u64,
    /// The path of the resource that contains the place, such as `servers/0`; empty: the stack itself.
    pub path: String,
}

/// The names in a path of the API.
pub type Names = Path<(String, String, String)>;

impl Place {
    pub fn of_stack(stack: &str, number: u64) -> Self {
        Self { stack: stack.to_owned(), number, path: String::new() }
    }

    /// The place of this resource's contents.
    pub fn within(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }

    pub fn id(&self) -> String {
        match &*self.path {
            "" => Id::Stack(self.number).to_string(),
            path => Id::nested(self.number, path).to_string(),
        }
    }

    /// As Heat's clients see it: `web-servers-0` for a nested one.
    pub fn name(&self) -> String {
        match &*self.path {
            "" => self.stack.clone(),
            path => format!("{}-{}", self.stack, path.replace('/', "-")),
        }
    }

    /// The full path of a resource in it.
    pub fn full(&self, resource: &str) -> String {
        if self.path.is_empty() { resource.to_owned() } else { format!("{}/{resource}", self.path) }
    }

    /// The place that contains it, and the name there.
    pub fn parent(&self) -> Option<(Place, &str)> {
        match self.path.rsplit_once('/') {
            _ if self.path.is_empty() => None,
            None => Some((self.within(""), &self.path)),
            Some((above, name)) => Some((self.within(above), name)),
        }
    }

    /// The place's address for clients.
    pub fn href(&self, base: &str) -> String {
        format!("{base}/stacks{}", path([&self.name(), &self.id()]))
    }

    /// In the API, with what follows.
    pub fn api(&self, rest: &str) -> String {
        format!("/v1/stacks{}{rest}", path([&self.stack]))
    }

    pub fn link(&self, base: &str, rel: &str) -> Value {
        json!({"href": self.href(base), "rel": rel})
    }

    /// As Heat names it in bodies.
    pub fn identity(&self, project: &str, path: &str) -> Value {
        json!({"tenant": project, "stack_name": self.name(), "stack_id": self.id(), "path": path})
    }
}

/// The place with this name or id.
pub async fn find(api: &Client, name_or_id: &str) -> Result<Place, Fault> {
    match name_or_id.parse() {
        Ok(Id::Stack(number)) => {
            let rows: Vec<StackRow> = api.get("/v1/stacks").await?;
            let row = rows.into_iter().find(|row| row.id == number.to_string());
            row.map(|row| Place::of_stack(&row.name, number)).ok_or_else(|| Fault::no_stack(name_or_id))
        }
        Ok(Id::Nested { stack, .. }) => {
            let outer = Box::pin(find(api, &Id::Stack(stack).to_string())).await;
            let outer = outer.map_err(|fault| absent(fault, name_or_id))?;
            nested(api, outer, name_or_id).await
        }
        Ok(Id::Event { .. }) => Err(Fault::no_stack(name_or_id)),
        Err(_foreign) => {
            let view = stack(api, name_or_id).await?;
            Ok(Place::of_stack(&view.name, number(&view)?))
        }
    }
}

/// The place of a whole path: both name and id must be its own.
pub async fn placed(api: &Client, name: &str, id: &str) -> Result<Place, Fault> {
    let place = match id.parse() {
        Ok(Id::Stack(wanted)) => {
            let view = stack(api, name).await?;
            if number(&view)? != wanted {
                return Err(Fault::no_stack(&format!("{name}/{id}")));
            }
            Place::of_stack(&view.name, wanted)
        }
        Ok(Id::Nested { .. }) => find(api, id).await?,
        Ok(Id::Event { .. }) | Err(_) => return Err(Fault::no_stack(id)),
    };
    if place.name() == name { Ok(place) } else { Err(Fault::no_stack(&format!("{name}/{id}"))) }
}

/// A stack itself: what is asked for is not done to a part of one.
pub async fn whole(api: &Client, name: &str, id: &str) -> Result<Place, Fault> {
    let place = placed(api, name, id).await?;
    if place.path.is_empty() {
        return Ok(place);
    }
    Err(Fault::not_supported(format!(
        "{} is a part of stack {}: what is asked for is done to that",
        place.name(),
        place.stack
    )))
}

/// The stack of this name; no text that cannot be a name is asked for.
pub async fn stack(api: &Client, name: &str) -> Result<StackView, Fault> {
    if name.parse::<muster_shared::StackName>().is_err() {
        return Err(Fault::no_stack(name));
    }
    let found = api.get(&format!("/v1/stacks{}", path([name]))).await;
    found.map_err(|fault| absent(fault, name))
}

/// Heat's words for what is not there.
fn absent(fault: Fault, name: &str) -> Fault {
    if fault.status == StatusCode::NOT_FOUND { Fault::no_stack(name) } else { fault }
}

pub fn number(view: &StackView) -> Result<u64, Fault> {
    view.id.parse().map_err(|_| Fault::internal("the API gave a stack without a number"))
}

async fn nested(api: &Client, outer: Place, id: &str) -> Result<Place, Fault> {
    let rows: Vec<ResourceView> = api.get(&outer.api("/resources")).await?;
    let names = rows.iter().map(|row| &*row.name);
    let found = nested::containers(names).into_iter().map(|path| outer.within(path)).find(|it| it.id() == id);
    found.ok_or_else(|| Fault::no_stack(id))
}

/// Answers a path with a name or an id alone: where the whole one is.
pub async fn redirect(
    State(_): State<Heat>,
    asking: Asking,
    Path((_, wanted)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Fault> {
    let place = find(&asking.api, &wanted).await?;
    let mut location = place.href(&asking.base);
    // /v1/PROJECT/stacks/STACK and what follows.
    if let Some(rest) = uri.path().splitn(6, '/').nth(5) {
        location = format!("{location}/{rest}");
    }
    if let Some(query) = uri.query() {
        location = format!("{location}?{query}");
    }
    let location = HeaderValue::try_from(location).map_err(|error| Fault::invalid(error.to_string()))?;
    Ok((StatusCode::FOUND, [(LOCATION, location)]).into_response())
}
