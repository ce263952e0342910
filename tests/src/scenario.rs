//! Scripted runs: one engine, one simulated node, `Muster::Dummy` resources. The format is that of recorded
//! runs of Heat's own convergence tests: operations, and how many jobs run between them. Each also stands for
//! a family of [`interleavings`](family): the same operations at other moments and in other orders.

pub mod command;
mod content;
mod family;
mod history;
mod order;
pub mod random;
mod script;
mod world;

use muster_engine::{Source, SourceText};
use muster_shared::StackName;
use serde::Deserialize;
use serde_json::Value;

use content::Content;
pub use family::{Bounds, Variant};
use history::Wanted;

/// A scenario file.
#[derive(Deserialize)]
#[serde(try_from = "File")]
pub struct Scenario {
    /// Shown with its result.
    pub name: String,
    steps: Vec<Step>,
}

enum Step {
    Operation(Operation),
    Jobs(usize),
    Until { count: usize, resource: Option<String> },
    Idle,
    Verify(Content),
    StoreUuid(String),
    UuidSame(String),
    UuidDiffers { resource: String, from: String },
}

struct Operation {
    stack: StackName,
    wish: Wish,
    /// Only in an update, and not in recorded scenarios.
    delete_first: bool,
}

enum Wish {
    Create(Wanted),
    Update(Wanted),
    Delete,
    Rollback,
    /// Not in recorded scenarios: Heat cannot say what becomes of the work in flight.
    Cancel,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    steps: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Create {
        stack: StackName,
        template: Value,
    },
    Update {
        stack: StackName,
        template: Value,
        #[serde(default)]
        delete_first: bool,
    },
    Delete {
        stack: StackName,
    },
    Rollback {
        stack: StackName,
    },
    Cancel {
        stack: StackName,
    },
    #[serde(rename = "step")]
    Jobs {
        n: usize,
    },
    Until {
        count: usize,
        resource: Option<String>,
    },
    Idle,
    Verify {
        template: Value,
    },
    StoreUuid {
        resource: String,
    },
    UuidSame {
        resource: String,
    },
    UuidDiffers {
        resource: String,
        from: String,
    },
}

impl TryFrom<File> for Scenario {
    type Error = muster_template::Errors;

    fn try_from(file: File) -> Result<Self, Self::Error> {
        let steps = file.steps.into_iter().map(Step::try_from).collect::<Result<_, _>>()?;
        Ok(Self { name: file.name, steps })
    }
}

impl TryFrom<Line> for Step {
    type Error = muster_template::Errors;

    fn try_from(line: Line) -> Result<Self, Self::Error> {
        let operation = |stack, wish| Step::Operation(Operation { stack, wish, delete_first: false });
        Ok(match line {
            Line::Create { stack, template } => operation(stack, Wish::Create(wanted(&template)?)),
            Line::Update { stack, template, delete_first } => {
                Step::Operation(Operation { stack, wish: Wish::Update(wanted(&template)?), delete_first })
            }
            Line::Delete { stack } => operation(stack, Wish::Delete),
            Line::Rollback { stack } => operation(stack, Wish::Rollback),
            Line::Cancel { stack } => operation(stack, Wish::Cancel),
            Line::Jobs { n } => Step::Jobs(n),
            Line::Until { count, resource } => Step::Until { count, resource },
            Line::Idle => Step::Idle,
            Line::Verify { template } => Step::Verify(Content::of(&template)),
            Line::StoreUuid { resource } => Step::StoreUuid(resource),
            Line::UuidSame { resource } => Step::UuidSame(resource),
            Line::UuidDiffers { resource, from } => Step::UuidDiffers { resource, from },
        })
    }
}

fn wanted(template: &Value) -> Result<Wanted, muster_template::Errors> {
    let text =
        SourceText { name: "scenario".into(), template: template.to_string(), ..SourceText::default() };
    Ok(Wanted { content: Content::of(template), source: Source::parse(text)? })
}

impl Operation {
    fn title(&self) -> String {
        let verb = match self.wish {
            Wish::Create(_) => "create",
            Wish::Update(_) => "update",
            Wish::Delete => "delete",
            Wish::Rollback => "rollback",
            Wish::Cancel => "cancel",
        };
        format!("{verb} {}", self.stack)
    }

    fn wanted(&self) -> Option<&Wanted> {
        match &self.wish {
            Wish::Create(wanted) | Wish::Update(wanted) => Some(wanted),
            Wish::Delete | Wish::Rollback | Wish::Cancel => None,
        }
    }
}

impl Step {
    fn title(&self) -> String {
        match self {
            Step::Operation(operation) => operation.title(),
            Step::Jobs(n) => format!("step {n}"),
            Step::Until { count, resource: None } => format!("until {count}"),
            Step::Until { count, resource: Some(resource) } => format!("until {count} {resource}"),
            Step::Idle => "idle".into(),
            Step::Verify(_) => "verify".into(),
            Step::StoreUuid(resource) => format!("store_uuid {resource}"),
            Step::UuidSame(resource) => format!("uuid_same {resource}"),
            Step::UuidDiffers { resource, .. } => format!("uuid_differs {resource}"),
        }
    }
}
