//! Software configs and deployments, as resources of stacks: Heat has them as things of their own as well. Making one
//! without a stack is refused: a script runs where a stack says so, and its stack says what became of it.

use axum::Json;
use axum::extract::Path;
use muster_api::resource::ResourceView;
use muster_api::stack::StackRow;
use serde_json::{Value, json};

use crate::caller::Asking;
use crate::fault::{Fault, cut};
use crate::place::Place;
use crate::query::Pairs;
use crate::time::heat;

/// Types of configs and of deployments.
const CONFIGS: [&str; 3] =
    ["OS::Heat::SoftwareConfig", "OS::Heat::StructuredConfig", "OS::Heat::SoftwareComponent"];
const DEPLOYMENTS: [&str; 2] = ["OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment"];

/// Resources of these types in all stacks that the caller reaches, with the time of the stack.
async fn of_types(asking: &Asking, types: &[&str]) -> Result<Vec<(StackRow, ResourceView)>, Fault> {
    let stacks: Vec<StackRow> = asking.api.get("/v1/stacks").await?;
    let mut found = Vec::new();
    for stack in stacks {
        let place = Place::of_stack(&stack.name, 0);
        // A stack may be deleted in the meantime.
        let rows: Option<Vec<ResourceView>> = asking.api.find(&place.api("/resources")).await?;
        let rows = rows.unwrap_or_default().into_iter().filter(|row| types.contains(&&*row.kind));
        found.extend(rows.map(|row| (stack.clone(), row)));
    }
    Ok(found)
}

/// GET /software_deployments
pub async fn list(asking: Asking, asked: Pairs) -> Result<Json<Value>, Fault> {
    let found = of_types(&asking, &DEPLOYMENTS).await?;
    let shown = found.iter().filter(|(_, row)| asked.lets("server_id", &row.node)).map(deployment);
    Ok(Json(json!({"software_deployments": shown.collect::<Vec<_>>()})))
}

/// GET /software_deployments/{id}
pub async fn show(asking: Asking, Path((_, id)): Path<(String, String)>) -> Result<Json<Value>, Fault> {
    let found = of_types(&asking, &DEPLOYMENTS).await?;
    match found.iter().find(|(_, row)| row.physical_id == id) {
        Some(found) => Ok(Json(json!({"software_deployment": deployment(found)}))),
        None => Err(Fault::not_found(format!("Software deployment with id {} not found", cut(&id)))),
    }
}

fn deployment((stack, row): &(StackRow, ResourceView)) -> Value {
    json!({
        "id": row.physical_id,
        "config_id": null,
        "server_id": row.node,
        "input_values": {},
        "output_values": {},
        "action": row.action,
        "status": row.status,
        "status_reason": row.status_reason,
        "creation_time": heat(&stack.created_at),
        "updated_time": heat(&stack.updated_at),
        "stack_name": stack.name,
        "resource_name": row.name,
    })
}

/// GET /software_deployments/metadata/{server}
pub async fn metadata(asking: Asking) -> Result<Json<Value>, Fault> {
    refuse(&asking, "metadata of a server: its agent has its jobs, and os-collect-config is not asked").await
}

/// GET /software_configs
pub async fn configs(asking: Asking) -> Result<Json<Value>, Fault> {
    let found = of_types(&asking, &CONFIGS).await?;
    Ok(Json(json!({"software_configs": found.iter().map(short_config).collect::<Vec<_>>()})))
}

/// GET /software_configs/{id}
pub async fn config(asking: Asking, Path((_, id)): Path<(String, String)>) -> Result<Json<Value>, Fault> {
    let found = of_types(&asking, &CONFIGS).await?;
    match found.iter().find(|(_, row)| row.physical_id == id) {
        Some(found) => Ok(Json(json!({"software_config": short_config(found)}))),
        None => Err(Fault::not_found(format!("Software config with id {} not found", cut(&id)))),
    }
}

fn short_config((stack, row): &(StackRow, ResourceView)) -> Value {
    json!({
        "id": row.physical_id,
        "name": row.name,
        "group": null,
        "creation_time": heat(&stack.created_at),
        "stack_name": stack.name,
    })
}

/// POST and DELETE of a config.
pub async fn no_config(asking: Asking) -> Result<Json<Value>, Fault> {
    refuse(&asking, "a software config is a resource of a stack: write it into a template").await
}

/// POST, PUT and DELETE of a deployment.
pub async fn no_deployment(asking: Asking) -> Result<Json<Value>, Fault> {
    refuse(&asking, "a software deployment is a resource of a stack: write it into a template").await
}

async fn refuse(asking: &Asking, why: &str) -> Result<Json<Value>, Fault> {
    asking.admit().await?;
    Err(Fault::not_supported(why))
}
