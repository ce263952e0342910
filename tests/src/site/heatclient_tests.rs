//! The functional tests that python-heatclient ships, and what is expected of them.

/// A class of tests.
pub struct FunctionalTests {
    /// The module and the class, below `heatclient.tests.functional`.
    pub class: &'static str,
    /// The tests that run; all, if there are none here.
    pub only: &'static [&'static str],
    /// The number of tests that pass.
    pub passed: usize,
    /// The other tests by name, each with words that the client is refused with.
    pub refused: &'static [(&'static str, &'static str)],
}

const CLOUDFORMATION: &str = "a template in the form of CloudFormation is not read";
const HOT_ALONE: &str = "templates are HOT alone";

/// Commands of `openstack` that only read.
pub const READING: FunctionalTests = FunctionalTests {
    class: "osc.v1.test_readonly.SimpleReadOnlyOpenStackClientTest",
    only: &[],
    passed: 13,
    refused: &[
        ("test_heat_template_validate_yaml", CLOUDFORMATION),
        ("test_orchestration_template_validate_yaml", CLOUDFORMATION),
    ],
};

/// Stacks. The test that is not here has the client fetch a template from the internet.
pub const STACKS: FunctionalTests = FunctionalTests {
    class: "osc.v1.test_stack.OpenStackClientStackTest",
    only: &[
        "test_stack_create_minimal_from_file",
        "test_stack_delete",
        "test_stack_show",
        "test_stack_snapshot_create_restore",
        "test_stack_snapshot_delete",
        "test_stack_suspend_resume",
    ],
    passed: 3,
    refused: &[
        ("test_stack_snapshot_create_restore", "muster stack revisions"),
        ("test_stack_snapshot_delete", "muster stack revisions"),
        ("test_stack_suspend_resume", "muster node maintenance"),
    ],
};

/// The older command `heat`.
pub const OLDER_COMMAND: FunctionalTests = FunctionalTests {
    class: "test_readonly_heat.SimpleReadOnlyHeatClientTest",
    only: &[],
    passed: 12,
    refused: &[
        ("test_heat_resource_template_fmt_arg_long_json", HOT_ALONE),
        ("test_heat_resource_template_fmt_arg_short_yaml", HOT_ALONE),
        ("test_heat_resource_template_fmt_default", HOT_ALONE),
        ("test_heat_template_validate_yaml", CLOUDFORMATION),
    ],
};

impl FunctionalTests {
    /// The arguments of Python's `unittest` that run them.
    pub fn names(&self) -> Vec<String> {
        let class = format!("heatclient.tests.functional.{}", self.class);
        match self.only {
            [] => vec![class],
            only => only.iter().map(|test| format!("{class}.{test}")).collect(),
        }
    }
}
