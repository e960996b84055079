//! Any text as a config: an error, or a config that reads back from what it writes.

#![no_main]

use burn::tensor::Device;
use libfuzzer_sys::fuzz_target;
use polyglow_train::Plan;
use polyglow_train::config::Config;

fuzz_target!(|text: &str| {
    let Ok(config) = Config::parse(text) else {
        return;
    };
    if config.validate().is_err() {
        return;
    }
    let reads_back = |config: &Config| {
        let written = config.to_toml().expect("a valid config can be written");
        assert_eq!(
            Config::parse(&written).expect("what was written reads back"),
            *config
        );
    };
    reads_back(&config);
    // What is filled in is valid, too. The device may be none of this build.
    let plan = Plan::on(config, Device::flex(), None);
    plan.config
        .validate()
        .expect("a plan of a valid config is one");
    reads_back(&plan.config);
});
