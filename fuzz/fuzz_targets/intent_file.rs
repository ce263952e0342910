#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| muster_tests::fuzz::run("intent_file", bytes));
