//! ONOS's cases of flow rules, rebuilt; and what ONOS never tested.
