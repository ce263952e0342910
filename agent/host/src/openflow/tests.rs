//! Forms and fields, without a switch.

use std::collections::BTreeSet;

use muster_shared::model::flow::{Criterion, Field, Instruction, Rule};

use super::encode::Encoder;
use super::form::{Former, RuleParts};
use super::ports::Ports;
use super::wire::Take;
use super::{decode, oxm, words};

fn criterion(field: Field, value: u128, mask: Option<u128>) -> Criterion {
    Criterion::Field { field, value, mask }
}

fn rule() -> Rule {
    let selector = vec![
        criterion(Field::Reg1, 0x50, Some(0xf0)),
        criterion(Field::EthType, 0x800, None),
        criterion(Field::Ipv4Dst, 0x0a00_0001, None),
        criterion(Field::TcpFlags, 2, Some(0x12)),
    ];
    let treatment = vec![Instruction::GotoTable(4)];
    Rule { table: 3, priority: 7, selector, treatment, idle_timeout: 30, hard_timeout: 0 }
}

/// Agents keep the hash on disk across updates.
#[test]
fn the_hash_of_a_form_never_changes() {
    let (mut encoder, mut former) = (Encoder::default(), Former::default());
    let forms = former.rule(&encoder.rule(&rule(), &Ports::default()).unwrap()).unwrap();
    assert_eq!((forms.place, forms.form.0), (14_049_369_815_991_818_505, 9_545_259_927_486_060_154));
}

#[test]
fn criteria_order_and_an_all_bits_mask_make_no_difference() {
    let mut former = Former::default();
    let mut bytes = |criteria: &[(Field, u128, Option<u128>)]| {
        let mut matched = Vec::new();
        for (field, value, mask) in criteria {
            oxm::put(&mut matched, *field, *value, *mask);
        }
        former.rule(&RuleParts { matched: &matched, ..RuleParts::default() }).unwrap()
    };
    let one = bytes(&[(Field::EthType, 0x86dd, None), (Field::Ipv6Flabel, 5, None)]);
    assert_eq!(bytes(&[(Field::Ipv6Flabel, 5, Some(0xf_ffff)), (Field::EthType, 0x86dd, None)]), one);
    assert_ne!(bytes(&[(Field::Ipv6Flabel, 5, Some(0xf_fff7)), (Field::EthType, 0x86dd, None)]), one);
    assert_ne!(bytes(&[(Field::Ipv6Flabel, 6, None), (Field::EthType, 0x86dd, None)]), one);
}

#[test]
fn every_field_has_its_own_key_and_reads_back_as_written() {
    let mut keys = BTreeSet::new();
    for field in Field::ALL {
        assert!(keys.insert(oxm::key(*field)), "{field:?}");
        assert_eq!(oxm::field(oxm::key(*field)), Some(*field));
        assert_eq!(oxm::loaded_field(oxm::load_header(*field)), Some(*field));
        for mask in [None, Some(field.all_bits() & !1).filter(|mask| *mask != 0)] {
            let value = field.all_bits() & mask.unwrap_or(u128::MAX);
            let mut bytes = Vec::new();
            oxm::put(&mut bytes, *field, value, mask);
            let mut take = Take(&bytes);
            let item = oxm::take(&mut take).unwrap();
            assert_eq!((item.key, item.value(), item.mask()), (oxm::key(*field), value, mask));
            assert!(take.is_empty());
        }
    }
}

#[test]
fn what_is_said_is_understood() {
    let mut encoder = Encoder::default();
    let ports = Ports::default();
    assert_eq!(decode::rule(&encoder.rule(&rule(), &ports).unwrap(), &ports), Some(rule()));
}

#[test]
fn misordered_instructions_are_refused_before_anything_is_sent() {
    let mut rule = rule();
    rule.treatment.push(Instruction::ClearActions);
    let why = Encoder::default().rule(&rule, &Ports::default()).unwrap_err();
    assert!(why.permanent && why.reason.contains("in this order"), "{why:?}");
}

#[test]
fn errors_have_their_names() {
    for (kind, code, name) in [
        (2, 4, "OFPBAC_BAD_OUT_PORT"),
        (2, 9, "OFPBAC_BAD_OUT_GROUP"),
        (3, 2, "OFPBIC_BAD_TABLE_ID"),
        (4, 9, "OFPBMC_BAD_PREREQ"),
        (5, 1, "OFPFMFC_TABLE_FULL"),
        (6, 8, "OFPGMFC_UNKNOWN_GROUP"),
        (12, 8, "OFPMMFC_BAD_BAND"),
        (17, 14, "OFPBFC_TIMEOUT"),
        (99, 1, "OpenFlow error 99, 1"),
    ] {
        assert_eq!(words::name(kind, code), name);
    }
}

/// The switch cuts a name after 15 bytes, wherever that is.
#[test]
fn a_port_whose_name_is_cut_within_a_character_hinders_nothing() {
    let mut port = vec![0; 72];
    port[3] = 7;
    port[16..31].copy_from_slice(&"patch-to-agröß".as_bytes()[..15]);
    let mut ports = Ports::default();
    assert_eq!(ports.add(&port), Some(true));
    assert_eq!(ports.add(&port), Some(false));
    assert!(ports.name(7).is_some_and(|name| name.starts_with("patch-to-agrö")));
    assert_eq!(ports.gone(&port), Some(()));
    assert_eq!(ports.name(7), None);
}
