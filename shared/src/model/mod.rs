//! The model of what travels between controller and agent, free of any encoding.

mod account;
mod deployment;
mod facts;
pub mod flow;
mod hostname;
mod message;
pub mod network;
mod package;
mod properties;
mod spec;
mod stray;
mod sysctl;
pub mod topology;
mod unit;
mod watch;

pub use account::{
    AccountError, Group, PasswordHash, User, check_account_id, check_account_name, check_account_path,
    check_comment, check_keys,
};
pub use deployment::{
    DEPLOY_ACTION, DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT, DEPLOYMENT_ATTRIBUTE_MAX,
    DEPLOYMENT_ATTRIBUTES_MAX, DEPLOYMENT_MAX, DEPLOYMENT_TIMEOUT_MAX, Deployment, DeploymentAction,
    DeploymentError, DeploymentGroup, DeploymentOutput, DeploymentStep, OnInterrupt,
};
pub use facts::{Counters, DiskFacts, Facts, LinkFacts, NeighbourFacts, OsFacts, PciFacts};
pub use hostname::{HOSTNAME_MAX, HostnameError, check_hostname};
pub use message::{
    CHALLENGE_BYTES, Down, Hello, JOB_TIMEOUT, JOBS_EVERY, JOBS_TOLD_MAX, Job, JobState, LedgerEntry,
    Observed, Outcome, Progress, Report, ReportKey, Stage, Up, Welcome,
};
pub use package::{
    PACKAGE_BACK, PACKAGE_TIMEOUT_MAX, Package, PackageError, Presence, check_package_name,
    check_package_version,
};
pub use spec::{
    Action, Claim, ClaimKind, Content, ContentDigest, Dummy, FailOn, File, Hostname, Lane, NetworkConfig,
    OnDelete, Spec,
};
pub use stray::{DESCRIBED_MAX, STRAY_NAME_MAX, Stray};
pub use sysctl::{Sysctl, SysctlError, check_sysctl_key};
pub use unit::{
    SETTLE_MAX, UNIT_CONTENT_MAX, UNIT_FOLDER, Unit, UnitActive, UnitError, check_drop_in_name,
    check_unit_name,
};
pub use watch::{Drift, DriftState};
