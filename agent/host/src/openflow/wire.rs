//! OpenFlow 1.4 as bytes: numbers of the specification, messages being written, messages being read.

/// The version of every message.
pub(super) const VERSION: u8 = 5;
/// Bytes before every message's body.
pub(super) const HEAD: usize = 8;

/// `ofp_type`
pub(super) mod kind {
    pub const HELLO: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const ECHO_REQUEST: u8 = 2;
    pub const ECHO_REPLY: u8 = 3;
    pub const FLOW_REMOVED: u8 = 11;
    pub const PORT_STATUS: u8 = 12;
    pub const FLOW_MOD: u8 = 14;
    pub const GROUP_MOD: u8 = 15;
    pub const MULTIPART_REQUEST: u8 = 18;
    pub const MULTIPART_REPLY: u8 = 19;
    pub const BARRIER_REQUEST: u8 = 20;
    pub const SET_ASYNC: u8 = 28;
    pub const METER_MOD: u8 = 29;
    pub const REQUEST_FORWARD: u8 = 32;
    pub const BUNDLE_CONTROL: u8 = 33;
    pub const BUNDLE_ADD: u8 = 34;
}

/// `ofp_multipart_type`
pub(super) mod part {
    pub const FLOW: u16 = 1;
    pub const TABLE: u16 = 3;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const PORT_DESC: u16 = 13;
    pub const FLOW_MONITOR: u16 = 16;
}

/// `ofp_port_no`
pub(super) mod port {
    pub const IN_PORT: u32 = 0xffff_fff8;
    pub const NORMAL: u32 = 0xffff_fffa;
    pub const FLOOD: u32 = 0xffff_fffb;
    pub const ALL: u32 = 0xffff_fffc;
    pub const CONTROLLER: u32 = 0xffff_fffd;
    pub const LOCAL: u32 = 0xffff_fffe;
    pub const ANY: u32 = 0xffff_ffff;
}

/// `OFPCML_NO_BUFFER`: a controller gets the whole packet.
pub(super) const NO_BUFFER: u16 = 0xffff;

/// `OFPTT_ALL`, `OFPG_ALL`, `OFPM_ALL`, `OFPG_ANY`
pub(super) const TABLE_ALL: u8 = 0xff;
pub(super) const GROUP_ALL: u32 = 0xffff_fffc;
pub(super) const METER_ALL: u32 = 0xffff_ffff;
pub(super) const GROUP_ANY: u32 = 0xffff_ffff;

/// `ofp_instruction_type`
pub(super) mod instruction {
    pub const GOTO_TABLE: u16 = 1;
    pub const WRITE_METADATA: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 3;
    pub const APPLY_ACTIONS: u16 = 4;
    pub const CLEAR_ACTIONS: u16 = 5;
    pub const METER: u16 = 6;
}

/// `ofp_action_type`
pub(super) mod action {
    pub const OUTPUT: u16 = 0;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// `NX_VENDOR_ID`, and the actions of Open vSwitch's own that we say.
pub(super) const NICIRA: u32 = 0x2320;
pub(super) mod nicira {
    pub const REG_LOAD: u16 = 7;
    pub const RESUBMIT_TABLE: u16 = 14;
    pub const CT: u16 = 35;
}

/// `OFPFF_SEND_FLOW_REM`
pub(super) const SEND_FLOW_REM: u16 = 1;

/// Bytes that are appended to.
pub(super) trait Put {
    fn u8(&mut self, number: u8);
    fn u16(&mut self, number: u16);
    fn u32(&mut self, number: u32);
    fn u64(&mut self, number: u64);
    fn zeros(&mut self, count: usize);
    /// Zeros, up to a multiple of eight bytes since `start`.
    fn pad(&mut self, start: usize);
    /// Writes the bytes since `start` as the length at `at`.
    fn length(&mut self, at: usize, start: usize);
}

impl Put for Vec<u8> {
    fn u8(&mut self, number: u8) {
        self.push(number);
    }

    fn u16(&mut self, number: u16) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.extend_from_slice(&number.to_be_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn pad(&mut self, start: usize) {
        let length = self.len() - start;
        self.zeros(length.next_multiple_of(8) - length);
    }

    fn length(&mut self, at: usize, start: usize) {
        // The encoder bounds entries, so that their length fits; the switch refuses a longer one.
        let length = u16::try_from(self.len() - start).unwrap_or(u16::MAX);
        self[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
}

/// Begins a message; [`end`] its length.
pub(super) fn begin(out: &mut Vec<u8>, kind: u8, xid: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&[VERSION, kind, 0, 0]);
    out.u32(xid);
    start
}

/// Ends the message that began at `start`.
pub(super) fn end(out: &mut Vec<u8>, start: usize) {
    out.length(start + 2, start);
}

/// Bytes to read; its methods return `None` at a premature end.
#[derive(Clone, Copy)]
pub(super) struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An item that begins with its length in two bytes at `at`, no shorter than `least`.
    pub fn item(&mut self, at: usize, least: usize) -> Option<&'a [u8]> {
        let length = usize::from(u16::from_be_bytes([*self.0.get(at)?, *self.0.get(at + 1)?]));
        if length < least { None } else { self.bytes(length) }
    }

    /// The OXM of an `ofp_match`, with its padding.
    pub fn matched(&mut self) -> Option<&'a [u8]> {
        let mut head = *self;
        let (kind, length) = (head.u16()?, usize::from(head.u16()?));
        if kind != 1 || length < 4 {
            return None;
        }
        self.bytes(length.next_multiple_of(8))?.get(4..length)
    }
}
