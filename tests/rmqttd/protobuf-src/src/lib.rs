//! The compiler of protocol buffers that the system has.

use std::path::PathBuf;

/// The compiler, to be found in `PATH`.
pub fn protoc() -> PathBuf {
    "protoc".into()
}
