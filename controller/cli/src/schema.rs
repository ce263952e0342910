//! `muster schema …`: JSON Schemas for editors, from the code that reads the files. Needs no controller.
//!
//! Absent: the schemas themselves (`controller/template/src/json_schema.rs`, `shared/src/model/network/schema/json.rs`).

use clap::Subcommand;
use muster_shared::model::network::NetworkDocument;
use muster_template::template_schema;

use crate::failure::Failure;
use crate::output::{Format, document};

#[derive(Subcommand)]
pub enum SchemaVerb {
    /// Print the JSON Schema of templates
    ///
    /// An editor with a YAML language server then completes types and properties, explains them, and marks typing
    /// errors in a template that begins with the line '# yaml-language-server: $schema=template.schema.json'.
    #[command(after_help = "Example:\n  muster schema template > template.schema.json")]
    Template,
    /// Print the JSON Schema of network documents, as 'muster-agent net apply' takes them
    ///
    /// The document begins with the line '# yaml-language-server: $schema=network.schema.json'.
    #[command(after_help = "Example:\n  muster schema network > network.schema.json")]
    Network,
}

/// Does it.
pub fn run(verb: SchemaVerb, format: Format) -> Result<(), Failure> {
    let schema = match verb {
        SchemaVerb::Template => template_schema(),
        SchemaVerb::Network => NetworkDocument::json_schema(),
    };
    // Editors read JSON, so that is also what is printed without -o.
    document(format, &schema, |schema| format!("{schema:#}\n"))
}
