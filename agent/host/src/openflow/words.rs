//! The switch's errors in words: OpenFlow's names, which people can look up.

/// `OFPBIC_UNSUP_INST` and the like.
pub(super) fn name(kind: u16, code: u16) -> String {
    let names: &[&str] = match kind {
        1 => &BAD_REQUEST,
        2 => &BAD_ACTION,
        3 => &BAD_INSTRUCTION,
        4 => &BAD_MATCH,
        5 => &FLOW_MOD_FAILED,
        6 => &GROUP_MOD_FAILED,
        12 => &METER_MOD_FAILED,
        17 => &BUNDLE_FAILED,
        _ => &[],
    };
    match names.get(usize::from(code)) {
        Some(name) => (*name).to_owned(),
        None => format!("OpenFlow error {kind}, {code}"),
    }
}

/// The meaning of the commonest errors for an operator; empty for others.
pub(super) fn meaning(name: &str) -> &'static str {
    match name {
        "OFPBAC_BAD_OUT_PORT" => "an output port is not there",
        "OFPBAC_BAD_OUT_GROUP" => "a group that it sends to is not there",
        "OFPBAC_MATCH_INCONSISTENT" => "an action needs a criterion that the selector lacks",
        "OFPBAC_BAD_SET_ARGUMENT" | "OFPBAC_BAD_SET_TYPE" | "OFPBAC_BAD_SET_LEN" => {
            "a field cannot be set so"
        }
        "OFPBAC_UNSUPPORTED_ORDER" => "actions cannot stand in this order",
        "OFPBMC_BAD_PREREQ" => "a criterion needs another before it",
        "OFPBMC_BAD_FIELD" => "the switch does not know a field",
        "OFPBMC_BAD_MASK" => "a field cannot be masked so",
        "OFPBMC_BAD_VALUE" => "a field cannot have that value",
        "OFPBIC_BAD_TABLE_ID" => "goto_table goes onwards only",
        "OFPBIC_UNSUP_INST" => "the switch does not know an instruction",
        "OFPFMFC_TABLE_FULL" => "the table is full",
        "OFPFMFC_EPERM" => "the table may not be changed",
        "OFPMMFC_UNKNOWN_METER" | "OFPMMFC_INVALID_METER" => "a meter is not there",
        "OFPMMFC_BAD_BAND" => "the switch's datapath does not know such a band",
        "OFPGMFC_UNKNOWN_GROUP" => "a group is not there",
        "OFPGMFC_LOOP" => "groups send to each other in a circle",
        "OFPBFC_TIMEOUT" => "it waited too long for being committed",
        _ => "",
    }
}

/// Whether a retry may succeed.
pub(super) fn may_pass(name: &str) -> bool {
    matches!(
        name,
        "OFPBAC_BAD_OUT_PORT"
            | "OFPBAC_BAD_OUT_GROUP"
            | "OFPFMFC_TABLE_FULL"
            | "OFPFMFC_UNKNOWN"
            | "OFPGMFC_OUT_OF_GROUPS"
            | "OFPMMFC_UNKNOWN_METER"
            | "OFPMMFC_INVALID_METER"
            | "OFPMMFC_OUT_OF_METERS"
            | "OFPBFC_TIMEOUT"
            | "OFPBFC_UNKNOWN"
            | "OFPBFC_OUT_OF_BUNDLES"
    )
}

const BAD_REQUEST: [&str; 16] = [
    "OFPBRC_BAD_VERSION",
    "OFPBRC_BAD_TYPE",
    "OFPBRC_BAD_MULTIPART",
    "OFPBRC_BAD_EXPERIMENTER",
    "OFPBRC_BAD_EXP_TYPE",
    "OFPBRC_EPERM",
    "OFPBRC_BAD_LEN",
    "OFPBRC_BUFFER_EMPTY",
    "OFPBRC_BUFFER_UNKNOWN",
    "OFPBRC_BAD_TABLE_ID",
    "OFPBRC_IS_SLAVE",
    "OFPBRC_BAD_PORT",
    "OFPBRC_BAD_PACKET",
    "OFPBRC_MULTIPART_BUFFER_OVERFLOW",
    "OFPBRC_MULTIPART_REQUEST_TIMEOUT",
    "OFPBRC_MULTIPART_REPLY_TIMEOUT",
];
const BAD_ACTION: [&str; 16] = [
    "OFPBAC_BAD_TYPE",
    "OFPBAC_BAD_LEN",
    "OFPBAC_BAD_EXPERIMENTER",
    "OFPBAC_BAD_EXP_TYPE",
    "OFPBAC_BAD_OUT_PORT",
    "OFPBAC_BAD_ARGUMENT",
    "OFPBAC_EPERM",
    "OFPBAC_TOO_MANY",
    "OFPBAC_BAD_QUEUE",
    "OFPBAC_BAD_OUT_GROUP",
    "OFPBAC_MATCH_INCONSISTENT",
    "OFPBAC_UNSUPPORTED_ORDER",
    "OFPBAC_BAD_TAG",
    "OFPBAC_BAD_SET_TYPE",
    "OFPBAC_BAD_SET_LEN",
    "OFPBAC_BAD_SET_ARGUMENT",
];
const BAD_INSTRUCTION: [&str; 10] = [
    "OFPBIC_UNKNOWN_INST",
    "OFPBIC_UNSUP_INST",
    "OFPBIC_BAD_TABLE_ID",
    "OFPBIC_UNSUP_METADATA",
    "OFPBIC_UNSUP_METADATA_MASK",
    "OFPBIC_BAD_EXPERIMENTER",
    "OFPBIC_BAD_EXP_TYPE",
    "OFPBIC_BAD_LEN",
    "OFPBIC_EPERM",
    "OFPBIC_DUP_INST",
];
const BAD_MATCH: [&str; 12] = [
    "OFPBMC_BAD_TYPE",
    "OFPBMC_BAD_LEN",
    "OFPBMC_BAD_TAG",
    "OFPBMC_BAD_DL_ADDR_MASK",
    "OFPBMC_BAD_NW_ADDR_MASK",
    "OFPBMC_BAD_WILDCARDS",
    "OFPBMC_BAD_FIELD",
    "OFPBMC_BAD_VALUE",
    "OFPBMC_BAD_MASK",
    "OFPBMC_BAD_PREREQ",
    "OFPBMC_DUP_FIELD",
    "OFPBMC_EPERM",
];
const FLOW_MOD_FAILED: [&str; 10] = [
    "OFPFMFC_UNKNOWN",
    "OFPFMFC_TABLE_FULL",
    "OFPFMFC_BAD_TABLE_ID",
    "OFPFMFC_OVERLAP",
    "OFPFMFC_EPERM",
    "OFPFMFC_BAD_TIMEOUT",
    "OFPFMFC_BAD_COMMAND",
    "OFPFMFC_BAD_FLAGS",
    "OFPFMFC_CANT_SYNC",
    "OFPFMFC_BAD_PRIORITY",
];
const GROUP_MOD_FAILED: [&str; 15] = [
    "OFPGMFC_GROUP_EXISTS",
    "OFPGMFC_INVALID_GROUP",
    "OFPGMFC_WEIGHT_UNSUPPORTED",
    "OFPGMFC_OUT_OF_GROUPS",
    "OFPGMFC_OUT_OF_BUCKETS",
    "OFPGMFC_CHAINING_UNSUPPORTED",
    "OFPGMFC_WATCH_UNSUPPORTED",
    "OFPGMFC_LOOP",
    "OFPGMFC_UNKNOWN_GROUP",
    "OFPGMFC_CHAINED_GROUP",
    "OFPGMFC_BAD_TYPE",
    "OFPGMFC_BAD_COMMAND",
    "OFPGMFC_BAD_BUCKET",
    "OFPGMFC_BAD_WATCH",
    "OFPGMFC_EPERM",
];
const METER_MOD_FAILED: [&str; 12] = [
    "OFPMMFC_UNKNOWN",
    "OFPMMFC_METER_EXISTS",
    "OFPMMFC_INVALID_METER",
    "OFPMMFC_UNKNOWN_METER",
    "OFPMMFC_BAD_COMMAND",
    "OFPMMFC_BAD_FLAGS",
    "OFPMMFC_BAD_RATE",
    "OFPMMFC_BAD_BURST",
    "OFPMMFC_BAD_BAND",
    "OFPMMFC_BAD_BAND_VALUE",
    "OFPMMFC_OUT_OF_METERS",
    "OFPMMFC_OUT_OF_BANDS",
];
const BUNDLE_FAILED: [&str; 17] = [
    "OFPBFC_UNKNOWN",
    "OFPBFC_EPERM",
    "OFPBFC_BAD_ID",
    "OFPBFC_BUNDLE_EXIST",
    "OFPBFC_BUNDLE_CLOSED",
    "OFPBFC_OUT_OF_BUNDLES",
    "OFPBFC_BAD_TYPE",
    "OFPBFC_BAD_FLAGS",
    "OFPBFC_MSG_BAD_LEN",
    "OFPBFC_MSG_BAD_XID",
    "OFPBFC_MSG_UNSUP",
    "OFPBFC_MSG_CONFLICT",
    "OFPBFC_MSG_TOO_MANY",
    "OFPBFC_MSG_FAILED",
    "OFPBFC_TIMEOUT",
    "OFPBFC_BUNDLE_IN_PROGRESS",
    "OFPBFC_SCHED_NOT_SUPPORTED",
];
