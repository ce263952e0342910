use serde_json::Value;

use super::*;

fn answer() -> Value {
    serde_json::from_str(include_str!("../../../picture/testdata/network.json")).unwrap()
}

#[test]
fn tables_for_people() {
    assert_eq!(
        tables(&read(&answer()).unwrap()),
        "\
DEVICE  STATE  PORTS  DOWN
a/br0   up     3      -
b/br0   away   3      -
c/br0   up     3      p2
d/br0   down   0      -

FROM      TO        STATE  KNOWN          COST  BANDWIDTH  RESERVED  LATENCY  INTENTS
a/br0:p1  b/br0:p1  up     declared,LLDP  1     1000000    1000      0.001    2
b/br0:p1  a/br0:p1  up     declared,LLDP  1     1000000    1000      0.001    2
b/br0:p2  c/br0:p1  up     LLDP           1     -          1000      0.001    2
c/br0:p1  b/br0:p2  up     LLDP           1     -          1000      0.001    2
a/br0:p2  c/br0:p2  down   LLDP           1     -          1000      0.001    2
"
    );
    assert!(tables(&TopologyView::default()).starts_with("DEVICE"), "nothing is there yet");
}
