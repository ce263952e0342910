use super::*;

#[test]
fn strategies_have_their_names() {
    for strategy in Strategy::ALL {
        assert_eq!(Strategy::from_name(strategy.as_str()), Some(strategy));
    }
}
