//! Wait conditions as Heat's documentation has them.

use serde_json::json;

use crate::{Desired, Kind, VirtualResource, WaitCondition, spec};

#[test]
fn a_wait_condition_is_of_a_handle_a_time_and_a_count() {
    for (properties, wanted) in [
        (json!({"handle": "h", "timeout": 300}), Ok((300, 1))),
        (json!({"handle": "h", "timeout": "1", "count": 10_000}), Ok((1, 10_000))),
        (json!({"handle": "h", "timeout": 43_200, "count": "2"}), Ok((43_200, 2))),
        (json!({"handle": "h", "timeout": 43_201}), Err("timeout: want a whole number from 1 to 43200")),
        (json!({"handle": "h", "timeout": 0}), Err("timeout: want a whole number from 1 to 43200")),
        (json!({"handle": "h"}), Err("timeout: this property must be given")),
        (json!({"timeout": 1}), Err("handle: this property must be given")),
        (json!({"handle": "h", "timeout": 1, "count": 0}), Err("count: want a whole number from 1 to 10000")),
        (json!({"handle": ["h"], "timeout": 1}), Err("handle: want text, got a list")),
    ] {
        let found = spec(Kind::WaitCondition, &properties).map_err(|error| error.to_string());
        let wanted = wanted.map_err(str::to_owned).map(|(timeout, count)| {
            Desired::Virtual(VirtualResource::Wait(WaitCondition { handle: "h".into(), timeout, count }))
        });
        assert_eq!(found, wanted, "{properties}");
    }
}

#[test]
fn what_needs_a_cloud_is_refused_by_name() {
    let parsed = |output: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31\nresources: {{h: {{type: OS::Heat::WaitConditionHandle}}}}\n\
             outputs: {{o: {{value: {{get_attr: [h, {output}]}}}}}}\n"
        );
        crate::parse("t", &text, &Default::default()).map(drop).map_err(|errors| errors.to_string())
    };
    assert_eq!(parsed("endpoint"), Ok(()));
    for attribute in ["token", "curl_cli", "signal"] {
        let said = parsed(attribute).unwrap_err();
        let wanted =
            format!("the attribute '{attribute}' of OS::Heat::WaitConditionHandle is not supported: servers");
        assert!(said.contains(&wanted) && said.contains("muster resource signal"), "{said}");
    }
    let said = parsed("endpiont").unwrap_err();
    assert!(said.contains("has no attribute 'endpiont'; did you mean 'endpoint'"), "{said}");
    let none =
        spec(Kind::WaitConditionHandle, &json!({"signal_transport": "NO_SIGNAL"})).unwrap_err().to_string();
    assert!(none.contains("unknown transport 'NO_SIGNAL'"), "{none}");
    let text =
        "heat_template_version: 2018-08-31\nresources: {h: {type: OS::Heat::UpdateWaitConditionHandle}}\n";
    let said = crate::parse("t", text, &Default::default()).map(drop).unwrap_err().to_string();
    assert!(said.contains("OS::Heat::UpdateWaitConditionHandle is not supported, for"), "{said}");
}
