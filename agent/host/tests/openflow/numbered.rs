//! Groups and meters.
