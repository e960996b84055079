//! Any text as a config: an error, or a config that reads back from what it writes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyglow_train::config::Config;

fuzz_target!(|text: &str| {
    let Ok(config) = Config::parse(text) else { return };
    let config = config.resolve();
    if config.validate().is_ok() {
        let written = config.to_toml().expect("a valid config can be written");
        assert_eq!(Config::parse(&written).expect("what was written reads back"), config);
    }
});
