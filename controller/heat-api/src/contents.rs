//! The contents of a stack: its template, environment and files, and its outputs.
//!
//! Absent: values of hidden parameters, which the API masks.

use axum::Json;
use axum::extract::Path;
use muster_api::stack::{StackView, TemplateView};
use serde_json::{Value, json};

use crate::caller::Asking;
use crate::fault::{Fault, cut};
use crate::place::{self, Names};
use crate::stack::output;

/// A template as a map. A large one takes time, so another thread reads it.
pub async fn document(template: TemplateView) -> Result<Value, Fault> {
    let read = move || muster_template::document(&template.name, &template.template);
    let read = tokio::task::spawn_blocking(read).await.map_err(|error| Fault::internal(error.to_string()))?;
    read.map_err(|errors| Fault::internal(errors.to_string()))
}

async fn current(asking: &Asking, name: &str, id: &str) -> Result<TemplateView, Fault> {
    let place = place::whole(&asking.api, name, id).await?;
    asking.api.get(&place.api("/template")).await
}

/// GET /stacks/{stack}/{id}/template
pub async fn template(asking: Asking, Path((_, name, id)): Names) -> Result<Json<Value>, Fault> {
    document(current(&asking, &name, &id).await?).await.map(Json)
}

/// GET /stacks/{stack}/{id}/files
pub async fn files(asking: Asking, Path((_, name, id)): Names) -> Result<Json<Value>, Fault> {
    Ok(Json(json!(current(&asking, &name, &id).await?.files)))
}

/// GET /stacks/{stack}/{id}/environment: the values in force, for those of an environment's file may be secret.
pub async fn environment(asking: Asking, Path((_, name, id)): Names) -> Result<Json<Value>, Fault> {
    let place = place::whole(&asking.api, &name, &id).await?;
    let view: StackView = place::stack(&asking.api, &place.stack).await?;
    Ok(Json(json!({
        "parameters": view.parameters,
        "parameter_defaults": {},
        "resource_registry": {"resources": {}},
        "encrypted_param_names": [],
        "event_sinks": [],
    })))
}

/// GET /stacks/{stack}/{id}/outputs
pub async fn outputs(asking: Asking, Path((_, name, id)): Names) -> Result<Json<Value>, Fault> {
    let place = place::whole(&asking.api, &name, &id).await?;
    let view: StackView = place::stack(&asking.api, &place.stack).await?;
    let short = |view| {
        let mut output = output(view);
        if let Some(map) = output.as_object_mut() {
            map.remove("output_value");
            map.remove("output_error");
        }
        output
    };
    Ok(Json(json!({"outputs": view.outputs.iter().map(short).collect::<Vec<_>>()})))
}

/// GET /stacks/{stack}/{id}/outputs/{key}
pub async fn output_named(
    asking: Asking,
    Path((_, name, id, key)): Path<(String, String, String, String)>,
) -> Result<Json<Value>, Fault> {
    let place = place::whole(&asking.api, &name, &id).await?;
    let view: StackView = place::stack(&asking.api, &place.stack).await?;
    let found = view.outputs.iter().find(|view| view.key == key);
    let found =
        found.ok_or_else(|| Fault::not_found(format!("Specified output key {} not found.", cut(&key))))?;
    Ok(Json(json!({"output": output(found)})))
}
