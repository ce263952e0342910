//! Software deployments, between version 1 and the model.

use super::{WireError, v1};
use crate::model::{
    Content, Deployment, DeploymentAction, DeploymentGroup, DeploymentOutput, DeploymentStep, OnInterrupt,
};

pub fn deployment_out(deployment: &Deployment) -> v1::Deployment {
    v1::Deployment {
        name: deployment.name.clone(),
        steps: deployment.steps.iter().map(step_out).collect(),
        inputs: deployment.inputs.clone(),
        replace_on: deployment.replace_on.iter().cloned().collect(),
        outputs: deployment.outputs.iter().map(|output| (output.name.clone(), output.error_output)).collect(),
        timeout_s: deployment.timeout,
        rerun: deployment.on_interrupt == OnInterrupt::Rerun,
    }
}

fn step_out(step: &DeploymentStep) -> (Vec<v1::DeploymentAction>, v1::DeploymentGroup, Vec<u8>) {
    let actions = step.actions.iter().map(|action| match action {
        DeploymentAction::Create => v1::DeploymentAction::Create,
        DeploymentAction::Update => v1::DeploymentAction::Update,
        DeploymentAction::Delete => v1::DeploymentAction::Delete,
    });
    let group = match step.group {
        DeploymentGroup::Script => v1::DeploymentGroup::Script,
        DeploymentGroup::ApplyConfig => v1::DeploymentGroup::ApplyConfig,
        DeploymentGroup::JsonFile => v1::DeploymentGroup::JsonFile,
    };
    let config = match &step.config {
        Content::Inline(bytes) => bytes.clone(),
        // A checked deployment has none.
        Content::Stored { .. } => Vec::new(),
    };
    (actions.collect(), group, config)
}

pub fn deployment_in(deployment: v1::Deployment) -> Result<Deployment, WireError> {
    let deployment = Deployment {
        name: deployment.name,
        steps: deployment.steps.into_iter().map(step_in).collect(),
        inputs: deployment.inputs,
        replace_on: deployment.replace_on.into_iter().collect(),
        outputs: deployment
            .outputs
            .into_iter()
            .map(|(name, error_output)| DeploymentOutput { name, error_output })
            .collect(),
        timeout: deployment.timeout_s,
        on_interrupt: if deployment.rerun { OnInterrupt::Rerun } else { OnInterrupt::Fail },
    };
    match deployment.check() {
        Ok(()) => Ok(deployment),
        Err(_) => Err(WireError::Bounds { field: "deployment" }),
    }
}

fn step_in(
    (actions, group, config): (Vec<v1::DeploymentAction>, v1::DeploymentGroup, Vec<u8>),
) -> DeploymentStep {
    let actions = actions.into_iter().map(|action| match action {
        v1::DeploymentAction::Create => DeploymentAction::Create,
        v1::DeploymentAction::Update => DeploymentAction::Update,
        v1::DeploymentAction::Delete => DeploymentAction::Delete,
    });
    DeploymentStep {
        actions: actions.collect(),
        group: match group {
            v1::DeploymentGroup::Script => DeploymentGroup::Script,
            v1::DeploymentGroup::ApplyConfig => DeploymentGroup::ApplyConfig,
            v1::DeploymentGroup::JsonFile => DeploymentGroup::JsonFile,
        },
        config: Content::Inline(config),
    }
}
