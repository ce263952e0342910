use muster_shared::model::flow::{Entry, Packed};
use serde_json::json;

use super::*;

const FIRST: IntentNo = IntentNo(1);
const SECOND: IntentNo = IntentNo(2);

fn kept(owner: Owner, removing: bool, mark: FlowMark) -> Kept {
    let packed = Packed::new(&Entry::from_json(&json!({"priority": 1})).unwrap()).unwrap();
    Kept {
        digest: packed.digest(),
        packed,
        serial: 1,
        past: None,
        owner,
        removing,
        mark,
        hidden: false,
        queued: false,
        unsaved: false,
    }
}

#[test]
fn who_may_have_an_entry() {
    let (operator, row) = (Owner::OPERATOR, Owner(7));
    let (first, second) = (Owner::intent(FIRST), Owner::intent(SECOND));
    let application = Owner::application(5);
    assert_eq!([operator, row, first, application].map(Owner::as_application), [None, None, None, Some(5)]);
    // The entry, and whether an operator, a resource and the first intent may have it.
    for (owner, removing, mark, want) in [
        (operator, false, FlowMark::None, [true, false, false]),
        (operator, true, FlowMark::None, [true, true, true]),
        (operator, false, FlowMark::Failed, [true, true, false]),
        (operator, false, FlowMark::Expired, [true, false, false]),
        (application, false, FlowMark::None, [true, false, false]),
        (application, true, FlowMark::None, [true, true, true]),
        (application, false, FlowMark::Failed, [true, true, false]),
        (row, false, FlowMark::None, [false, true, false]),
        (row, true, FlowMark::None, [false, true, true]),
        (row, false, FlowMark::Failed, [false, true, false]),
        (first, false, FlowMark::None, [false, false, true]),
        (first, true, FlowMark::None, [false, false, true]),
        (first, false, FlowMark::Failed, [false, true, true]),
        (second, false, FlowMark::None, [false, false, false]),
        (second, true, FlowMark::None, [false, false, false]),
        (second, false, FlowMark::Failed, [false, true, false]),
    ] {
        let kept = kept(owner, removing, mark);
        let askers = [Asker::OperatorPuts, Asker::Resource("r"), Asker::Intent(FIRST)];
        let case = format!("{owner:?}, removing {removing}, {mark:?}");
        assert_eq!(askers.map(|asker| asker.may_have(&kept)), want, "{case}");
        assert_eq!(Asker::OperatorRemoves.may_have(&kept), want[0], "{case}");
    }
}
